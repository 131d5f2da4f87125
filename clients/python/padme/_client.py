"""The synchronous client."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Optional

from ._ask import Ask, Phase
from ._hold import State, Waiting, check_on_lost
from ._settings import Settings
from ._show import Show, Shown
from ._terms import Terms, terms
from ._worker import Worker

_RELEASING = 1.0  # seconds that giving back waits for the server; it goes on after that


class Hold(State):
    """A lock that is held, until `release` or until it is lost. Any thread may use it."""

    def __init__(self, request: Request, worker: Worker, owns: bool) -> None:
        self._request, self._worker, self._owns = request, worker, owns
        self._changed = threading.Event()

    def release(self) -> None:
        """Gives the lock back, and waits a moment for the server to say so. Does nothing
        if it was lost or given back before."""
        try:
            self._worker.leave(self._ask)
            if not self._worker.foreign:
                _until(self._changed, lambda: self._ask.phase is Phase.OVER, _RELEASING)
        finally:
            if self._owns:
                self._worker.close()


class Request(Waiting):
    """A lock to take: in a `with`, or by `acquire`. It may be taken again after it was
    given back, but by one at a time: a second thread asks for a lock of its own."""

    def __init__(
        self, connect: Callable[[], Worker], owns: bool, of: Terms, on_lost: Optional[Callable[[Hold], Any]]
    ) -> None:
        check_on_lost(on_lost)
        if inspect.iscoroutinefunction(on_lost):
            raise TypeError(f"on_lost={on_lost!r} is a coroutine function, which only padme.aio calls: give a function")
        self._connect, self._owns, self._terms, self._on_lost = connect, owns, of, on_lost
        self._priority = of.priority
        self._worker = None
        self._ask = None
        self._taken = threading.Lock()
        self._hold: Optional[Hold] = None

    def acquire(self) -> Hold:
        """Blocks until the lock is held. Whatever ends it, Ctrl-C too, takes the request back.

        Raises Busy, TimedOut, Denied or NoServer.
        """
        if not self._taken.acquire(blocking=False):
            raise RuntimeError(f'lock "{self._terms.lock}" is asked for by this very request: make another one with lock()')
        try:
            return self._acquire()
        finally:
            self._taken.release()

    def _acquire(self) -> Hold:
        if self._ask is not None and self._ask.phase in (Phase.WAITING, Phase.HELD):
            raise RuntimeError(f'lock "{self._terms.lock}" is held by this very request: release it first, or make another one with lock()')
        worker = self._connect()
        hold = Hold(self, worker, self._owns)
        on_lost = self._on_lost
        told = None if on_lost is None else functools.partial(_call, on_lost, hold)
        hold._ask = ask = Ask(self._terms, self._priority, hold._changed.set, told)
        self._ask, self._worker = ask, worker
        try:
            worker.add(ask)
            ask.blocked = True
            _until(hold._changed, lambda: ask.phase is not Phase.WAITING)
            if ask.error is not None:
                raise ask.error
            return hold
        except BaseException:
            worker.leave(ask)
            if self._owns:
                worker.close()
            raise
        finally:
            ask.blocked = False

    def __enter__(self) -> Hold:
        self._hold = self.acquire()
        return self._hold

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Gives the lock back. Raises Lost if it was lost, unless something else was raised."""
        hold, self._hold = self._hold, None
        if hold is None:
            return
        lost = hold._worker.lost(hold._ask)
        hold.release()
        if lost is not None and kind is None and not hold._ask.given:
            raise lost


def _until(changed: threading.Event, done: Callable[[], bool], seconds: Optional[float] = None) -> None:
    while not done():
        if not changed.wait(1.0 if seconds is None else seconds) and seconds is not None:
            return
        changed.clear()


def _call(on_lost: Callable[[Hold], Any], hold: Hold) -> None:
    """On a thread of its own, as it may take its time while others are renewed."""
    threading.Thread(target=on_lost, args=(hold,), name="padme-lost", daemon=True).start()


class Client:
    """A connection to a broker, for any number of locks. Any thread may use it.

    It is made by `connect`. While the connection is lost it comes back by itself.
    """

    def __init__(self, settings: Settings) -> None:
        self._worker = Worker(settings)
        self._finalizer = weakref.finalize(self, self._worker.drop)
        self._finalizer.atexit = False  # the worker sees to that

    @property
    def name(self) -> str:
        """The client's id, which others see as the holder."""
        return self._worker.settings.name

    def lock(
        self, name: str, *, resource: str = "default", priority: int = 100, timeout: Optional[float] = None, wait: bool = True,
        within: Optional[float] = None, hold: Optional[float] = None, lease: float = 10.0,
        on_lost: Optional[Callable[[Hold], Any]] = None,
    ) -> Request:
        """A lock to take, in a `with` or by `acquire`. Nothing is asked for before that.

        resource: which one of the lock; padme.ANY for any that it declares.
        priority: smaller is more important.
        timeout: seconds to wait at most, then TimedOut. Without it: as long as it takes.
        wait: False to be told at once, by Busy, that another holds it.
        within: seconds within which it must be granted, else TimedOut; a lock whose models
            promise deadlines refuses at once, by Denied, what it cannot promise.
        hold: seconds for which it will be held: the deadlines of others are promised on it.
        lease: seconds for which the server keeps the request without a sign of life, 0.2 to 600; a
            hold ends before, when it is not valid any more.
        on_lost: called with the hold, once, on a thread of its own, if the lock is lost.
        """
        return Request(lambda: self._worker, False, terms(name, resource, priority, timeout, wait, within, hold, lease), on_lost)

    def show(self, name: str) -> Shown:
        """What holds for a lock as a whole. Raises NoServer, Busy or Denied."""
        changed = threading.Event()
        ask = Show(name, changed.set)
        self._worker.add(ask)
        try:
            _until(changed, lambda: ask.phase is Phase.OVER)
        finally:
            self._worker.leave(ask)
        return ask.answer

    def close(self) -> None:
        """Gives back what is held, takes back what waits, and disconnects; takes a second
        and a half at most."""
        self._finalizer.detach()
        self._worker.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
