"""What `lock` is given, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._settings import lock_level, name_level

ANY = "*"
"""As resource=: any one of those that the lock declares; `hold.resource` says which."""

_DAY = 86400  # seconds, the most that servers take


@dataclass(frozen=True)
class Terms:
    """Times are in seconds."""

    lock: str
    level: str
    resource: str = "default"
    priority: int = 100
    timeout: Optional[float] = None
    wait: bool = True
    within: Optional[float] = None
    hold: Optional[float] = None
    lease: float = 10.0

    @property
    def patience(self) -> Optional[float]:
        """How long to wait at most."""
        return min((s for s in (self.timeout, self.within) if s is not None), default=None)


def terms(
    lock: str, resource: str, priority: int, timeout: Optional[float], wait: bool,
    within: Optional[float], hold: Optional[float], lease: float,
) -> Terms:
    if resource != ANY:
        name_level(resource, "resource")
    check_priority(priority)
    if not isinstance(wait, bool):
        raise TypeError(f"wait={wait!r}: give True or False; for how long is the timeout=")
    _check_seconds("timeout", timeout, "; wait=False does not wait at all")
    _check_seconds("within", within, "")
    _check_seconds("hold", hold, "")
    if not wait and (timeout is not None or within is not None):
        raise ValueError("wait=False does not wait, so it has no timeout= or within=")
    if isinstance(lease, bool) or not isinstance(lease, (int, float)):
        raise TypeError(f"lease={lease!r}: give a number of seconds")
    if not 0.2 <= lease <= 600:
        raise ValueError(f"lease={lease!r}: give 0.2 to 600 seconds")
    return Terms(lock, lock_level(lock), resource, priority, timeout, wait, within, hold, lease)


def _check_seconds(what: str, seconds: Optional[float], remedy: str) -> None:
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{what}={seconds!r}: give a number of seconds")
    if not 0 < seconds <= _DAY:
        raise ValueError(f"{what}={seconds!r}: give seconds above 0, up to {_DAY}{remedy}")


def check_priority(priority: int) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"priority={priority!r}: give an int; smaller is more important")
    if not -(2**63) <= priority < 2**63:
        raise ValueError(f"priority={priority}: give an int of 64 bits")
