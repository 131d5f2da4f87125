"""A distributed lock over MQTT.

    import padme

    with padme.lock("crane", priority=5) as hold:
        hold.check()          # right before each effect
        move(hold.fence)

The broker is that of broker=, of the environment's PADME_BROKER, or on this machine.
`connect` makes a client that takes many locks over one connection; `padme.aio` is the
same for asyncio.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import aio
from ._client import Client, Hold, Request
from ._errors import Busy, Denied, Error, Lost, NoServer, TimedOut
from ._settings import settings
from ._show import Shown
from ._terms import ANY, terms
from ._worker import Worker

__all__ = [
    "ANY", "Busy", "Client", "Denied", "Error", "Hold", "Lost", "NoServer", "Request", "Shown", "TimedOut", "aio", "connect", "lock",
]


def connect(
    broker: Optional[str] = None, *, user: Optional[str] = None, password: Optional[str] = None, name: Optional[str] = None,
    cafile: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
    domain: str = "default", prefix: str = "padme", patience: float = 10.0,
) -> Client:
    """Connects to a broker, and blocks until that has answered; raises NoServer or Denied.

    broker: a URL of mqtt, mqtts, ws or wss, or several with commas between them.
    user, password: by default the environment's PADME_USER and PADME_PASSWORD.
    name: the client's id. By default the user, or one that no other process has.
    cafile: PEM file of the authority that signed the broker's certificate, if that is not
        one of the system's.
    cert, key: PEM files of the client's own certificate, for brokers that want one.
    domain, prefix: those of `pubsub-node`.
    patience: seconds after which a request that no server has answered raises NoServer.
    """
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
    """A lock to take, in a `with` or by `acquire`, over a connection of its own, which
    ends when the lock is given back. The arguments are those of `connect` and of
    `Client.lock`."""
    chosen = settings(broker, user, password, name, cafile, cert, key, domain, prefix, patience)
    return Request(lambda: Worker(chosen), True, terms(lock, resource, priority, timeout, wait, within, hold, lease), on_lost)
