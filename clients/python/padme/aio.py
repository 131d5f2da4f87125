"""The same for asyncio; nothing here blocks the event loop.

    async with padme.aio.lock("crane", priority=5) as hold:
        hold.check()
        await move(hold.fence)

A thread keeps the connection and renews what is held, so a hold outlives an event loop
that is busy for a while.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import weakref
from types import TracebackType
from typing import Any, Awaitable, Callable, Generator, Optional

from ._ask import Ask, Phase
from ._hold import State, Waiting, check_on_lost
from ._settings import Settings, settings
from ._show import Show, Shown
from ._terms import Terms, terms
from ._worker import Worker

__all__ = ["Client", "Hold", "Request", "connect", "lock"]

_RELEASING = 1.0  # seconds that giving back waits for the server; it goes on after that


class _Changed:
    """An event of the loop that the worker's thread sets."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            await self._event.wait()
            self._event.clear()

    def set(self) -> None:
        self.soon(self._event.set)

    def soon(self, call: Callable[[], Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed


class Hold(State):
    """A lock that is held, until `release` or until it is lost."""

    def __init__(self, request: Request, worker: Worker, owns: bool) -> None:
        self._request, self._worker, self._owns = request, worker, owns
        self._changed = _Changed()

    async def release(self) -> None:
        """Gives the lock back, and waits a moment for the server to say so. Does nothing
        if it was lost or given back before."""
        try:
            self._worker.leave(self._ask)
            if not self._worker.foreign:
                await asyncio.wait_for(self._changed.until(lambda: self._ask.phase is Phase.OVER), _RELEASING)
        except asyncio.TimeoutError:
            pass
        finally:
            if self._owns:
                await _close(self._worker)

    def _tell(self, on_lost: Callable[[Hold], Any]) -> None:
        told = on_lost(self)
        if inspect.iscoroutine(told):
            self._telling = asyncio.ensure_future(told)  # kept, or it may be collected


class Request(Waiting):
    """A lock to take: in an `async with`, or by `acquire`. It may be taken again after it
    was given back, but by one task at a time."""

    def __init__(
        self, connect: Callable[[], Awaitable[Worker]], owns: bool, of: Terms, on_lost: Optional[Callable[[Hold], Any]]
    ) -> None:
        check_on_lost(on_lost)
        self._connect, self._owns, self._terms, self._on_lost = connect, owns, of, on_lost
        self._priority = of.priority
        self._worker = None
        self._ask = None
        self._taken = False
        self._hold: Optional[Hold] = None

    async def acquire(self) -> Hold:
        """Waits until the lock is held. If the task is canceled, the request is taken back.

        Raises Busy, TimedOut, Denied or NoServer.
        """
        if self._taken or self._ask is not None and self._ask.phase in (Phase.WAITING, Phase.HELD):
            raise RuntimeError(f'lock "{self._terms.lock}" is asked for or held by this very request: make another one with lock()')
        self._taken = True
        try:
            return await self._acquire(await self._connect())
        finally:
            self._taken = False

    async def _acquire(self, worker: Worker) -> Hold:
        hold = Hold(self, worker, self._owns)
        on_lost = self._on_lost
        told = None if on_lost is None else functools.partial(hold._changed.soon, functools.partial(hold._tell, on_lost))
        hold._ask = ask = Ask(self._terms, self._priority, hold._changed.set, told)
        self._ask, self._worker = ask, worker
        try:
            worker.add(ask)
            await hold._changed.until(lambda: ask.phase is not Phase.WAITING)
            if ask.error is not None:
                raise ask.error
            return hold
        except BaseException:
            worker.leave(ask)
            if self._owns:
                await _close(worker)
            raise

    async def __aenter__(self) -> Hold:
        self._hold = await self.acquire()
        return self._hold

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Gives the lock back. Raises Lost if it was lost, unless something else was raised."""
        hold, self._hold = self._hold, None
        if hold is None:
            return
        lost = hold._worker.lost(hold._ask)
        await hold.release()
        if lost is not None and kind is None and not hold._ask.given:
            raise lost


class Client:
    """A connection to a broker, for any number of locks: `async with connect() as client`,
    or `client = await connect()`, and then `await client.close()`."""

    def __init__(self, of: Settings) -> None:
        self._settings = of
        self._worker: Optional[Worker] = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def _open(self) -> Client:
        if self._worker is None:
            worker = await _dial(self._settings)
            if self._worker is None:
                self._worker = worker
                weakref.finalize(self, worker.drop).atexit = False  # the worker sees to that
            else:  # another task was faster
                await _close(worker)
        return self

    @property
    def name(self) -> str:
        """The client's id, which others see as the holder."""
        return self._settings.name

    def lock(
        self, name: str, *, resource: str = "default", priority: int = 100, timeout: Optional[float] = None, wait: bool = True,
        within: Optional[float] = None, hold: Optional[float] = None, lease: float = 10.0,
        on_lost: Optional[Callable[[Hold], Any]] = None,
    ) -> Request:
        """A lock to take, in an `async with` or by `acquire`. The arguments are those of
        `padme.Client.lock`; on_lost is called in the event loop, and may be a coroutine function."""
        return Request(self._connected, False, terms(name, resource, priority, timeout, wait, within, hold, lease), on_lost)

    async def show(self, name: str) -> Shown:
        """What holds for a lock as a whole. Raises NoServer, Busy or Denied."""
        worker, changed = await self._connected(), _Changed()
        ask = Show(name, changed.set)
        worker.add(ask)
        try:
            await changed.until(lambda: ask.phase is Phase.OVER)
        finally:
            worker.leave(ask)
        return ask.answer

    async def _connected(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("the client is not connected: `async with padme.aio.connect() as client`")
        return self._worker

    async def close(self) -> None:
        """Gives back what is held, takes back what waits, and disconnects; takes a second
        and a half at most."""
        if self._worker is not None:
            await _close(self._worker)

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _dial(of: Settings) -> Worker:
    """Connects on a thread. If the task is canceled meanwhile, the connection is closed."""
    made = asyncio.ensure_future(asyncio.to_thread(Worker, of))
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        made.add_done_callback(_unwanted)
        raise


def _unwanted(made: asyncio.Future[Worker]) -> None:
    if not made.canceled() and made.exception() is None:
        threading.Thread(target=made.result().close, name="padme-close", daemon=True).start()


async def _close(worker: Worker) -> None:
    await asyncio.shield(asyncio.to_thread(worker.close))


def connect(
    broker: Optional[str] = None, *, user: Optional[str] = None, password: Optional[str] = None, name: Optional[str] = None,
    cafile: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
    domain: str = "default", prefix: str = "padme", patience: float = 10.0,
) -> Client:
    """A client, which is to be awaited or entered by `async with`; that raises NoServer or
    Denied. The arguments are those of `padme.connect`."""
    return Client(settings(broker, user, password, name, cafile, cert, key, domain, prefix, patience))


def lock(
    lock: str, broker: Optional[str] = None, *, resource: str = "default", priority: int = 100,
    timeout: Optional[float] = None, wait: bool = True,
    within: Optional[float] = None, hold: Optional[float] = None, lease: float = 10.0,
    on_lost: Optional[Callable[[Hold], Any]] = None,
    user: Optional[str] = None, password: Optional[str] = None, name: Optional[str] = None,
    cafile: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
    domain: str = "default", prefix: str = "padme", patience: float = 10.0,
) -> Request:
    """A lock to take over a connection of its own, which ends when the lock is given back.
    The arguments are those of `padme.lock`; on_lost is called in the event loop, and may be a coroutine function."""
    chosen = settings(broker, user, password, name, cafile, cert, key, domain, prefix, patience)
    return Request(lambda: _dial(chosen), True, terms(lock, resource, priority, timeout, wait, within, hold, lease), on_lost)
