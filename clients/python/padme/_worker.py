"""The thread that speaks for a client: it keeps the connection, and renews what is held."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # before we are registered to hear of the end: see _main_over
import json
import logging
import os
import random
import secrets
import socket
import struct
import threading
import weakref
from collections import Counter
from typing import Any, Callable, Optional

from ._ask import REPEAT, Ask, Phase
from ._clock import now as clock
from ._errors import Busy, Denied, Error, Lost, NoServer
from ._mqtt import Connection, dial, readable
from ._settings import Settings

_log = logging.getLogger("padme")

_CLOSING = 1500  # ms that closing waits for the server
_LOOK_AFTER = 300  # ms without an answer until it looks who serves
_SILENT_AFTER = 6  # so many times `patience` is a server that is there but does not answer busy
_MOST = 256  # requests for one lock at once, of which a server takes no more of one client
_MIN_BACKOFF, _MAX_BACKOFF = 100, 5000  # ms between two tries to connect
_WARNINGS = 64  # locks of which it logs what a server warns of


class Worker:
    """Requests over one connection at a time. Its methods may be called by any thread.

    All connections have one session. The will of a cut one ends what waits, which asks again
    then; a hold goes on if it can be renewed in time.
    """

    def __init__(self, settings: Settings) -> None:
        """Connects, which may block for some seconds; raises NoServer or Denied."""
        self.settings = settings
        self.mutex = threading.Lock()
        self._asks: list[Ask] = []
        self._count = 0
        self._closing: Optional[int] = None  # until when
        self._ended = self._dropped = False
        self._refused: Optional[Error] = None  # why there is no connection

        self._client_id = f"{settings.name[:40]}-{secrets.token_hex(4)}"
        self._session = secrets.token_hex(8)
        self._connection: Optional[Connection] = dial(settings, self._client_id, self._session)
        self._dialing = False
        self._dialed: Optional[Connection] = None
        self._failed_at, self._backoff = 0, _MIN_BACKOFF
        self._pause = 0.0  # ms, the half of the back-off or more: clients do not all come back at once
        self._serving: dict[str, bool] = {}  # by participant, while someone waits for a first answer
        self._looking = False
        self._looking_since = 0
        self._warned: set[str] = set()  # locks of which a server has warned

        self._pid = os.getpid()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        _workers.add(self)
        self._thread = threading.Thread(target=self._run, name="padme", daemon=True)
        self._thread.start()

    # What others call.

    @property
    def foreign(self) -> bool:
        """This is the fork of a process, which has neither the thread nor the connection."""
        return os.getpid() != self._pid

    def add(self, ask: Ask) -> None:
        if self.foreign:
            raise Error("this process is a fork of the one that connected: connect again here")
        with self.mutex:
            if self._closing is not None:
                raise Error("the client is closed: connect again")
            ask.session = self._session
            self._asks.append(ask)
        self.wake()

    def leave(self, ask: Ask) -> None:
        """Takes a request back, or gives its lock back. Does not wait."""
        if self.foreign:
            return
        with self.mutex:
            ask.tick(clock())
            ask.given = ask.given or ask.phase is Phase.HELD
            ask.leave(None)
        self.wake()

    def prioritize(self, ask: Ask, priority: int) -> None:
        """Makes a request that waits more important."""
        if self.foreign:
            return
        with self.mutex:
            if ask.phase is not Phase.WAITING or priority >= ask.priority:
                return
            ask.raise_due, ask.priority = bool(ask.id), priority
        self.wake()

    def valid(self, ask: Ask) -> bool:
        """Whether the lock is held; once it is not, it never is again."""
        if self.foreign:
            return False
        if ask.phase is Phase.HELD and clock() < ask.until:
            return True
        with self.mutex:
            ask.tick(clock())
            held = ask.phase is Phase.HELD
        self.wake()
        return held

    def lost(self, ask: Ask) -> Optional[Lost]:
        """Why a lock that was granted is not held any more, if so."""
        if self.foreign:
            return Lost(f"{ask.called} is held by the process that this one is a fork of: connect and lock again here")
        if self.valid(ask):
            return None
        return Lost(ask.lost or f"{ask.called} was given back: take it again")

    def close(self) -> None:
        """Takes everything back, and disconnects. Waits for a server at most a moment."""
        if self.foreign:
            return
        with self.mutex:
            self._close()
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def drop(self) -> None:
        """Closes it soon, and waits for nothing and no mutex: for whoever collects garbage."""
        self._dropped = True
        self.wake()

    def _close(self) -> None:
        if self._closing is None:
            self._closing = clock() + _CLOSING
            for ask in self._asks:
                if ask.phase is Phase.HELD:
                    ask.lose("the client was closed")
                ask.leave(Error("the client was closed while this waited"))

    def wake(self) -> None:
        """Has the thread look at once."""
        try:
            self._wake_write.send(b"\0")
        except OSError:
            pass  # it is awake, or gone

    def abandon(self) -> None:
        """In a fork: closes what it got of the parent's, of which it must send nothing."""
        self._wake_read.close()
        self._wake_write.close()
        if self._connection is not None:
            self._connection.close(clean=False)

    # The thread.

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._end()

    def _turn(self) -> bool:
        """Does what is due, and waits for the network or what is due next."""
        with self.mutex:
            now = clock()
            if self._dropped:
                self._close()
            calls = self._look(now)
            connected = self._connection is not None
            sends = self._due(now) if connected else []
            over = self._closing is not None and (not self._asks or now >= self._closing)
            until = self._next(now)
        for call in calls:
            call()
        if over:
            return False
        try:
            self._converse(sends, 0 if calls else max(0, until - clock()) / 1000)
        except (OSError, ValueError, struct.error) as err:
            self._disconnected(NoServer(f"the connection to {self.settings.where} is lost: {err}: it is made again, try again then"))
        return True

    def _next(self, now: int) -> int:
        """When to look again, if nothing is heard."""
        connected = self._connection is not None
        at = [now + (_LOOK_AFTER if any(a.silent for a in self._asks) else REPEAT)]
        for ask in self._asks:
            at += ask.next(connected)
        if not connected and not self._dialing:
            at.append(self._retry_at())
        return min(at)

    def _look(self, now: int) -> list[Callable[[], None]]:
        """Ends what is over, and returns whom to tell."""
        calls: list[Callable[[], None]] = []
        self._let_go()
        for ask in self._asks:
            error = self._hopeless(ask, now) if ask.phase is Phase.WAITING else None
            if error is not None:
                ask.leave(error)
            ask.tick(now)
            if ask.phase is not ask.reported:
                ask.reported = ask.phase
                calls.append(ask.changed)
                if ask.lost and ask.on_lost is not None and self._closing is None:
                    calls.append(ask.on_lost)
                    ask.on_lost = None
        left = [a for a in self._asks if a.phase is not Phase.OVER]
        if len(left) < len(self._asks):  # there is room for those that were not asked for yet
            for ask in left:
                ask.due = ask.due if ask.acquired_at else 0
        self._asks = left
        return calls

    def _let_go(self) -> None:
        """Gives back what a thread that has ended holds, if this program cannot end without it:
        its main thread has ended, and all others do nothing but wait for locks, this one too. A
        thread of an executor has ended with the job in which it took the lock: a later one may wait
        for it on the same thread."""
        if not _main_is_over():
            return
        waiting = [a for worker in list(_workers) for a in list(worker._asks) if a.blocked and a.phase is Phase.WAITING]
        held = [a for a in self._asks if a.phase is Phase.HELD and (not _runs(a.thread) or any(_same(a, w) for w in waiting if w.thread is a.thread))]
        if not held:
            return
        blocked = {a.thread for a in waiting}
        if any(t not in blocked for t in threading.enumerate() if not t.daemon and _runs(t)):
            return  # somebody may work under it, or give it back
        for ask in held:
            if any(_same(ask, a) for a in waiting):
                ask.lose("what took it has ended, and this program waits for it")
                _log.warning("%s", ask.lost)

    def _due(self, now: int) -> list[tuple[str, str]]:
        """Topics and messages."""
        sends = []
        asked = Counter(a.level for a in self._asks if a.id)
        for ask in sorted(self._asks, key=lambda a: a.priority):
            if not ask.id and now >= ask.due:
                asked[ask.level] += 1
                if asked[ask.level] > _MOST and ask.wait:
                    ask.due = now + REPEAT
                    continue
                ask.begun_at = now
                self._count += 1
                ask.id, ask.afresh = str(self._count), True
            if ask.id:
                text = ask.message(now)
                if text is not None:
                    sends.append((self.settings.client_topic(ask.level, "request"), text))
        return sends

    def _converse(self, sends: list[tuple[str, str]], seconds: float) -> None:
        if self._connection is None:
            if self._reconnect():
                return
            readable(seconds, self._wake_read)
        else:
            self._look_for_servers()
            for topic, text in sends:
                self._connection.publish(topic, text)
            self._connection.pump(seconds, self._wake_read)
            self._hear(self._connection)
        try:
            self._wake_read.recv(4096)
        except BlockingIOError:
            pass

    def _hear(self, connection: Connection) -> None:
        with self.mutex:
            now = clock()
            while connection.arrived:
                topic, payload = connection.arrived.popleft()
                levels = topic.split("/")
                try:
                    said = json.loads(payload) if payload else {}
                    if levels[-1] == "answer":
                        self._heard(levels[-4], said, now)
                    else:
                        self._serving[levels[-1]] = bool(said.get("alive")) and (said.get("userData") or {}).get("serves") == "locks"
                except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
                    pass  # not from a server or participant

    def _heard(self, lock: str, a: dict[str, Any], now: int) -> None:
        for ask in self._asks:
            if a.get("id"):
                if a["id"] == ask.id and a.get("session", "") == ask.session and lock == ask.level:
                    ask.hear(a, now)
                    self._warn(lock, ask.warning)
            elif a.get("outcome") == "denied" and lock == ask.level and ask.phase is Phase.WAITING:
                ask.turn_away(str(a.get("detail", "")), now)

    def _warn(self, lock: str, sentence: str) -> None:
        """Logs what a server has to say of a lock, once: it may be the same of each resource."""
        if sentence and lock not in self._warned and len(self._warned) < _WARNINGS:
            self._warned.add(lock)
            _log.warning("%s", sentence)

    # Is anybody there?

    def _look_for_servers(self) -> None:
        """While a request waits for its first answer, reads who serves."""
        now = clock()
        silent = any(a.silent and now - a.begun_at >= _LOOK_AFTER for a in self._asks)
        if silent != self._looking and self._connection is not None:
            self._looking, self._looking_since = silent, now
            self._connection.watch(self.settings.root + "/presence/+", silent)
            with self.mutex:
                self._serving.clear()

    def _hopeless(self, ask: Ask, now: int) -> Optional[Error]:
        """Why to give a request up, if so. One that was answered once is not given up:
        its server is replaced, or comes back."""
        if isinstance(self._refused, Denied):
            return self._refused
        if not ask.id and self._connection is not None:
            return None  # others come first
        waited, patience = now - ask.begun_at, self.settings.patience * 1000
        overdue = ask.give_up_at is not None and now >= ask.give_up_at
        if ask.answered or waited < patience and not overdue:
            return None
        serving = sorted(p for p, serves in self._serving.items() if serves)
        if ask.busy:
            return None if ask.wait else Busy(f"{ask.called} cannot be asked for now: {ask.busy}: try again later")
        if self._refused is not None and self._connection is None:
            if waited >= patience:
                return self._refused
            ask.busy = str(self._refused)
            return None
        if not serving:
            if not self._looking or now - self._looking_since < _LOOK_AFTER:
                return None  # it is not known yet
            return NoServer(
                f"nobody serves {ask.called} at {self.settings.where}: "
                "start `pubsub-node serve` there; if it runs, look whether it may serve this lock and this client may ask"
            )
        if ask.wait and waited < _SILENT_AFTER * patience:
            return None
        return Busy(
            f'{ask.called} is not answered, although "{serving[0]}" serves locks at {self.settings.where}: '
            "it has too much to do, or does not serve this one: try again later"
        )

    # Coming back.

    def _disconnected(self, why: Error) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(clean=False)
        self._refused, self._looking = why, False
        self._serving.clear()
        with self.mutex:
            for ask in self._asks:
                ask.afresh = False
            self._back_off()

    def _back_off(self) -> None:
        """It tries again after some time, which stays short beside the outage, as in Go programs."""
        self._failed_at, self._pause = clock(), self._backoff * random.uniform(0.5, 1)
        self._backoff = min(_MAX_BACKOFF, self._backoff * 5 // 4)

    def _retry_at(self) -> int:
        """When to try again: sooner while something is held or waited for."""
        pauses = [p for p in (a.longest_pause for a in self._asks) if p is not None]
        return self._failed_at + int(min([self._pause, *pauses]))

    def _reconnect(self) -> bool:
        """Takes over what was dialed, or dials, on a thread of its own: holds must end in
        time meanwhile. Reports whether there is a connection."""
        with self.mutex:
            if self._dialed is not None:
                self._connection, self._dialed = self._dialed, None
                self._refused, self._backoff = None, _MIN_BACKOFF
                for ask in self._asks:
                    ask.due = 0
                return True
            if self._dialing or clock() < self._retry_at():
                return False
            self._dialing = True
        threading.Thread(target=self._dial, name="padme-dial", daemon=True).start()
        return False

    def _dial(self) -> None:
        try:
            dialed, error = dial(self.settings, self._client_id, self._session), None
        except Exception as err:
            dialed, error = None, err if isinstance(err, Error) else NoServer(str(err))
        with self.mutex:
            self._dialing = False
            if self._ended:
                if dialed is not None:
                    dialed.close()
                return
            self._dialed = dialed
            if error is not None:
                self._refused = error
                self._back_off()
        self.wake()

    def _end(self) -> None:
        with self.mutex:
            self._ended = True
            self._closing = self._closing or clock()
            left, self._asks = self._asks, []
            for ask in left:
                if ask.phase is Phase.HELD:
                    ask.lose("the client has ended")
                ask.leave(Error("the client has ended while this waited"))
                ask.phase = Phase.OVER
            dialed, self._dialed = self._dialed, None
        for ask in left:
            ask.changed()
        if dialed is not None:
            dialed.close()
        if self._connection is not None:
            self._connection.close(clean=not left)  # else the will says it
        self._wake_read.close()
        self._wake_write.close()


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


_over = False  # the main thread has ended


def _main_over() -> None:
    """Called before the interpreter waits for threads, and before an executor does: what is
    registered last is called first."""
    global _over
    _over = True
    for worker in list(_workers):
        worker.wake()


def _main_is_over() -> bool:
    return _over or not threading.main_thread().is_alive()


def _same(held: Ask, wanted: Ask) -> bool:
    return wanted.level == held.level and wanted.resource in (held.resource, "*")


def _runs(thread: threading.Thread) -> bool:
    return thread.is_alive() and not (thread is threading.main_thread() and _main_is_over())


try:
    threading._register_atexit(_main_over)  # type: ignore[attr-defined]
except (AttributeError, RuntimeError):
    pass  # is_alive tells it, unless an executor is waited for


@atexit.register
def _at_exit() -> None:
    """What a program leaves held is free at once for the next one."""
    workers = list(_workers)
    for worker in workers:
        worker.drop()
    for worker in workers:
        worker.close()


def _after_fork() -> None:
    for worker in list(_workers):
        worker.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
