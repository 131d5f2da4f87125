"""Brokers, servers and clients of the tests, each a process of its own."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Optional

import padme

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0  # seconds for whatever must happen in the end, on a machine that is busy
Cleanup = Callable[..., Any]  # addCleanup of a test, or addClassCleanup


def folder(cleanup: Cleanup) -> str:
    f = tempfile.TemporaryDirectory(prefix="padme-test-")
    cleanup(f.cleanup)
    return f.name


@functools.lru_cache(maxsize=None)
def node() -> str:
    """The program pubsub-node: PADME_NODE, or built now."""
    if os.environ.get("PADME_NODE"):
        return os.environ["PADME_NODE"]
    path = os.path.join(tempfile.mkdtemp(), "pubsub-node")
    subprocess.run(["go", "build", "-o", path, "./cmd/pubsub-node"], cwd=HERE.parents[2], check=True)
    return path


def need(program: str, remedy: str) -> str:
    """Where a program is. Without it the test is skipped, or fails where CI is true."""
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        if os.environ.get("CI") == "true":
            raise AssertionError(f"{program} is not installed: {remedy}")
        raise unittest.SkipTest(f"{program} is not installed: {remedy}")
    return path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def eventually(what: str, done: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        got = done()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.01)


def workers() -> int:
    """Clients of this process that have not ended."""
    return sum(t.name == "padme" for t in threading.enumerate())


def listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A process with what it printed. It ends at the cleanup."""

    def __init__(self, cleanup: Cleanup, *argv: str, env: Optional[dict[str, str]] = None) -> None:
        self.out = tempfile.NamedTemporaryFile(prefix="padme-test-")
        self.name = " ".join(Path(a).name for a in argv[:3])
        self.popen = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=self.out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, cwd=HERE.parent
        )
        cleanup(self.close)

    @property
    def printed(self) -> str:
        return Path(self.out.name).read_text()

    def await_line(self, start: str) -> str:
        """The rest of the first line that begins so."""

        def look() -> Optional[str]:
            for line in self.printed.splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line[len(start):].strip() or "yes"
            if self.popen.poll() is not None and start not in self.printed:
                raise AssertionError(f"{self.name} has ended ({self.popen.returncode}): {self.printed}")
            return None

        return eventually(f"{self.name} prints {start!r}", look)

    def say(self, line: str = "") -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def signal(self, what: int) -> None:
        self.popen.send_signal(what)

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.send_signal(signal.SIGCONT)
        self.popen.wait()
        if self.popen.stdin is not None:
            try:
                self.popen.stdin.close()
            except OSError:
                pass
        self.out.close()


class Proxy:
    """A way to the broker that can be cut."""

    def __init__(self, test: World, port: int) -> None:
        self.target = port
        self.whole = True
        self.pairs: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        test.addCleanup(self.close)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.whole:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            self.pairs += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    @staticmethod
    def _carry(a: socket.socket, b: socket.socket) -> None:
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        a.close()

    def cut(self) -> None:
        """Ends every connection. New ones are closed at once until `heal`."""
        self.whole = False
        pairs, self.pairs = self.pairs, []
        for s in pairs:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def heal(self) -> None:
        self.whole = True

    def close(self) -> None:
        self.listener.close()
        self.cut()


class Site:
    """A broker of a kind, and servers. `cleanup` is that of a test, or of a class of tests."""

    def __init__(self, cleanup: Cleanup, kind: str, *flags: str) -> None:
        self.cleanup = cleanup
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.servers: dict[str, Process] = {}
        if kind == "embedded":
            argv = [node(), "broker", "--listen", f"127.0.0.1:{self.port}", "--timing", "lan", "--memory", *flags]
        else:
            conf = Path(self.folder()) / "mosquitto.conf"
            conf.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n")
            argv = [need("mosquitto", "apt-get install mosquitto"), "-c", str(conf)]
        self.broker = Process(cleanup, *argv)
        eventually("the broker serves", lambda: listens(self.port))

    def serve(self, name: str, *flags: str, env: Optional[dict[str, str]] = None) -> Process:
        ready = Path(self.folder()) / "ready"
        p = Process(self.cleanup, node(), "serve", "--broker", self.url, "--id", name, "--ready-file", str(ready), *flags, env=env)
        eventually(f"{name} is connected", ready.exists)
        self.servers[name] = p
        return p

    def folder(self) -> str:
        return folder(self.cleanup)


class World(unittest.TestCase):
    """Tests with a site, which they share unless they break it. Each leaves nothing held."""

    KIND = "embedded"
    FLAGS: tuple[str, ...] = ()  # of the embedded broker
    SERVERS: tuple[str, ...] = ()  # beside the embedded broker, which is one
    SHARED = True
    shared: Optional[Site] = None

    @classmethod
    def make(cls, cleanup: Cleanup) -> Site:
        site = Site(cleanup, cls.KIND, *cls.FLAGS)
        for name in cls.SERVERS:
            site.serve(name)
        return site

    @classmethod
    def setUpClass(cls) -> None:
        if cls.SHARED:
            cls.shared = cls.make(cls.addClassCleanup)

    def setUp(self) -> None:
        self.site = self.shared or self.make(self.addCleanup)
        self.url = self.site.url

    def client(self, url: Optional[str] = None, **options: Any) -> padme.Client:
        options.setdefault("patience", PATIENCE)
        c = padme.connect(url or self.url, **options)
        self.addCleanup(c.close)
        return c

    def child(self, lock: str, *options: str) -> Process:
        """A process with a client, see child.py."""
        env = {"PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
        return Process(self.addCleanup, sys.executable, str(HERE / "child.py"), self.url, lock, *options, env=env)

    def is_free(self, client: padme.Client, lock: str) -> bool:
        try:
            with client.lock(lock, wait=False):
                return True
        except padme.Busy:
            return False
