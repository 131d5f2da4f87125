"""What the synchronous and the asynchronous client share."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ._ask import Ask, Phase
from ._clock import now as clock
from ._terms import Terms, check_priority
from ._worker import Worker

class State:
    """A lock that is held, as far as asking about it goes."""

    _worker: Worker
    _ask: Ask

    @property
    def lock(self) -> str:
        """The name of the lock."""
        return self._ask.lock

    @property
    def resource(self) -> str:
        """The resource that is held, also where any was asked for."""
        return self._ask.resource

    @property
    def priority(self) -> int:
        """That of the request when it was granted."""
        return self._ask.priority

    @property
    def fence(self) -> int:
        """A number that rises with every entry. Hand it to what the lock protects, and
        have that refuse a lower one than it has seen."""
        return self._ask.fence

    @property
    def valid(self) -> bool:
        """Whether the lock is held now. Once it is not, it never is again."""
        return self._worker.valid(self._ask)

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is held even if nothing more is heard of the server."""
        return max(0, self._ask.until - clock()) / 1000 if self.valid else 0.0

    def check(self) -> None:
        """Raises Lost if the lock is not held now. Call it right before each effect."""
        lost = self._worker.lost(self._ask)
        if lost is not None:
            raise lost

    def __repr__(self) -> str:
        return f"<padme.Hold of {self._ask.called} fence {self.fence}{'' if self.valid else ', not held any more'}>"


class Waiting:
    """A request, as far as asking about it and raising it goes."""

    _terms: Terms
    _priority: int
    _worker: Optional[Worker]
    _ask: Optional[Ask]

    @property
    def position(self) -> int:
        """Of a request that waits, as far as the server knows: 1 is the next. Otherwise 0."""
        ask = self._ask
        return ask.position if ask is not None and ask.phase is Phase.WAITING else 0

    @property
    def priority(self) -> int:
        """Smaller is more important."""
        return self._priority

    def raise_priority(self, priority: int) -> None:
        """Makes a request more important; priority is smaller than its own. If it waits,
        it moves ahead in line; if the lock is held, nothing changes. Any thread may call
        this. Raises ValueError for a priority that is less important."""
        check_priority(priority)
        if priority > self._priority:
            raise ValueError(f"priority={priority} is less important than {self._priority}: give a smaller one")
        self._priority = priority
        ask, worker = self._ask, self._worker
        if ask is not None and worker is not None:
            worker.prioritize(ask, priority)


def check_on_lost(on_lost: Optional[Callable[..., Any]]) -> None:
    if on_lost is not None and not callable(on_lost):
        raise TypeError(f"on_lost={on_lost!r}: give a function, which is called with the hold")
