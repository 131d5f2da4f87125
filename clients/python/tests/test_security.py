"""Users, TLS and WebSockets, at the embedded broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import padme

from .world import Cleanup, Site, World, eventually, folder, free_port, listens, need, node


class Users(World):
    @classmethod
    def make(cls, cleanup: Cleanup) -> Site:
        users = str(Path(folder(cleanup)) / "users")
        for name, role in (("robot", "client"), ("panel", "observer")):
            subprocess.run([node(), "broker", "passwd", users, name, "--role", role], input=f"{name}-secret\n".encode(), check=True)
        return Site(cleanup, "embedded", "--users", users)

    def test_a_client(self) -> None:
        a = self.client(user="robot", password="robot-secret")
        self.assertEqual(a.name, "robot")
        with a.lock("crane") as hold:
            hold.check()

    def test_a_wrong_password(self) -> None:
        with self.assertRaisesRegex(padme.Denied, 'refuses user "robot".*password=') as denied:
            padme.connect(self.url, user="robot", password="no")
        self.assertEqual(denied.exception.reason, "not_authorized")

    def test_no_user(self) -> None:
        with self.assertRaisesRegex(padme.Denied, "refuses a client without a user.*user="):
            padme.connect(self.url)

    def test_an_observer_is_told_so(self) -> None:
        with self.assertRaisesRegex(padme.Denied, 'user "panel" may connect .* but not lock.*role client'):
            padme.connect(self.url, user="panel", password="panel-secret")

    def test_another_name_than_the_user(self) -> None:
        with self.assertRaisesRegex(padme.Denied, "name= must be the user's"):
            padme.connect(self.url, user="robot", password="robot-secret", name="other")


class TLS(World):
    ca: str
    ws: int

    @classmethod
    def make(cls, cleanup: Cleanup) -> Site:
        openssl = need("openssl", "apt-get install openssl")
        d = Path(folder(cleanup))
        for who, signed in (("ca", []), ("host", ["-CA", f"{d}/ca.pem", "-CAkey", f"{d}/ca.key"])):
            subprocess.run(
                [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                 "-keyout", f"{d}/{who}.key", "-out", f"{d}/{who}.pem", "-subj", f"/CN={who}", *signed,
                 "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        cls.ca, cls.ws = str(d / "ca.pem"), free_port()
        site = Site(cleanup, "embedded", "--cert", f"{d}/host.pem", "--key", f"{d}/host.key", "--ws", f"127.0.0.1:{cls.ws}")
        site.url = site.url.replace("mqtt:", "mqtts:")
        return site

    def test_both_ports(self) -> None:
        eventually("it serves WebSockets", lambda: listens(self.ws))
        for url in (self.url, f"wss://127.0.0.1:{self.ws}/mqtt"):
            with self.subTest(url), self.client(url, cafile=self.ca).lock("crane") as hold:
                hold.check()

    def test_a_broker_of_another_authority(self) -> None:
        with self.assertRaisesRegex(padme.NoServer, "no TLS.*cafile="):
            padme.connect(self.url)

    def test_without_tls(self) -> None:
        with self.assertRaisesRegex(padme.NoServer, "no broker answers"):
            padme.connect(self.url.replace("mqtts:", "mqtt:"))


class WebSockets(World):
    ws: int

    @classmethod
    def make(cls, cleanup: Cleanup) -> Site:
        cls.ws = free_port()
        return Site(cleanup, "embedded", "--ws", f"127.0.0.1:{cls.ws}")

    def test_a_lock(self) -> None:
        eventually("it serves WebSockets", lambda: listens(self.ws))
        a = self.client(f"ws://127.0.0.1:{self.ws}/mqtt")
        with a.lock("crane") as hold:
            hold.check()
        with self.assertRaisesRegex(padme.NoServer, "no broker answers"):
            padme.connect(self.url.replace("mqtt:", "ws:"))
