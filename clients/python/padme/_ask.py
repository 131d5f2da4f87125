"""One request for a lock, from its first acquire to its last release."""

from __future__ import annotations

import json
import threading
from enum import Enum
from typing import Any, Callable, Optional

from ._clock import now as clock
from ._errors import Busy, Denied, Error, TimedOut, denied
from ._terms import Terms

REPEAT = 1000  # ms; what is not answered is sent again, and for waiting that is harmless
_SOON = 500  # the same for what ends or keeps a hold
_LEAST = 200  # two messages about one request that waits are at least so far apart
_OFTEN = 50  # the same for a hold, which one that comes too late costs
_UNHEARD = 1500  # ms that the end of a request is said which no server has ever answered
_SELDOM = 5000  # a release that is not answered is repeated ever more slowly, until the lease is over
_NOT_NOW = ("overload", "too_many", "too_fast")  # what is denied for now


class Phase(Enum):
    WAITING = 1
    HELD = 2
    LEAVING = 3  # the server is told, and has not confirmed it
    OVER = 4


class Ask:
    """How a request stands. The worker's mutex guards it; it does no I/O.

    It takes a new id when the server has ended its old one while it waits: another server
    has taken over, or the connection was cut and its will has come. Times are in ms.
    """

    def __init__(self, terms: Terms, priority: int, changed: Callable[[], None], on_lost: Optional[Callable[[], None]]) -> None:
        self.terms, self.lock, self.level = terms, terms.lock, terms.level
        self.priority, self.wait = priority, terms.wait
        self.changed, self.on_lost = changed, on_lost  # called by the worker, without its mutex
        self.asked_at = self.begun_at = clock()  # the latter: or when it last had a new id
        self.give_up_at = None if terms.patience is None else self.asked_at + _ms(terms.patience)

        self.phase = self.reported = Phase.WAITING
        self.thread = threading.current_thread()  # that asks
        self.blocked = False  # the thread does nothing else until it is granted or fails
        self.session = self.id = ""  # given by the worker
        self._repeat = min(REPEAT, _ms(terms.lease) // 3)  # ms until it is sent again: before its lease ends
        self.due = self.acquired_at = 0  # when there is something to say; when it last asked
        self.raise_due = False
        self.answered = False  # a server knows of it
        self.afresh = False  # its id is of this connection, so that no last will ends it
        self.busy = ""  # what a server said that had no time for it
        self.error: Optional[Error] = None  # why it was not granted
        self.lost = ""  # why it is not held any more
        self.given = False  # it was given back, and not lost before
        self.tries = 0  # releases that were sent
        self._forgotten_at = 0  # when the lease is over, if no release was heard
        self.warning = ""  # a sentence for people

        self.resource, self.fence, self.until, self.position = terms.resource, 0, 0, 0

    @property
    def called(self) -> str:
        """The lock in words."""
        return f'lock "{self.lock}"' + ("" if self.terms.resource == "default" else f', resource "{self.resource}",')

    @property
    def silent(self) -> bool:
        """It waits, and no server has answered yet."""
        return self.phase is Phase.WAITING and not self.answered

    # What the server says.

    def hear(self, a: dict[str, Any], now: int) -> None:
        """An answer that names this request."""
        outcome, op = a["outcome"], a.get("op", "")
        reason, detail = str(a.get("reason", "")), str(a.get("detail", ""))
        if outcome == "denied" and (reason in _NOT_NOW or detail.startswith("the server is busy")):
            self.turn_away(detail, now)
            if not self.wait and op == "acquire" and self.phase is Phase.WAITING:
                self.leave(Busy(f"{self.called} cannot be asked for now: {self.busy}: try again later"))
        elif self.phase is Phase.LEAVING:
            if outcome not in ("waiting", "granted"):
                self.phase = Phase.OVER
        elif self.phase is Phase.HELD:
            self._hear_held(a, outcome, reason, detail, now)
        elif self.phase is Phase.WAITING:
            if outcome == "denied":
                if op in ("", "acquire"):  # else only that message is denied
                    self._hear_denied(reason, detail, now)
                return
            self.answered, self.busy = True, ""
            self.warning = str(a.get("warning", self.warning))
            self._hear_waiting(a, outcome, now)

    def _hear_denied(self, reason: str, detail: str, now: int) -> None:
        if reason == "not_ready" and self.wait:  # servers may take the waiting for over too early
            self.turn_away(detail, now)
            self._ask_afresh()
        else:
            self._end(self._refusal(reason, detail))

    def _ask_afresh(self) -> None:
        """It takes a new id with its next message."""
        self.id, self.raise_due, self.position = "", False, 0

    def _hear_waiting(self, a: dict[str, Any], outcome: str, now: int) -> None:
        if outcome == "granted":
            self.until = int(a["sent"]) + int(a["valid_ms"])
            if self.until <= now:  # it was too long on its way
                self.due = min(self.due, now + _LEAST)
                return
            self.fence, self.resource = int(a["fence"]), str(a["resource"])
            self.priority = int(a["priority"])
            self.phase = Phase.HELD
            self._renew_at(a, now)
        elif outcome == "waiting":
            self.position = int(a.get("position", 0))
            self.raise_due = int(a["priority"]) > self.priority
            self.priority = min(self.priority, int(a["priority"]))  # an operator may have raised it
            self.due = max(now + _LEAST, int(a["sent"]) + int(a["valid_ms"]) // 3)
        elif a.get("reason") == "gone" and self.afresh:
            self._end(Denied("gone", f"{self.called} is not waited for any more: an operator ended the request"))
        else:  # lost, expired or released: ask again
            self._ask_afresh()
            self.due = max(now, self.acquired_at + _LEAST)

    def _hear_held(self, a: dict[str, Any], outcome: str, reason: str, detail: str, now: int) -> None:
        self.tick(now)
        if self.phase is not Phase.HELD or outcome in ("waiting", "denied"):
            return
        if outcome == "granted" and int(a["fence"]) == self.fence:
            self.until = max(self.until, int(a["sent"]) + int(a["valid_ms"]))
            self._renew_at(a, now)
            return
        why = {
            "gone": "the connection was cut for too long, or an operator ended the hold",
            "unknown": "the server that granted it is gone",
            "ended": "the server that granted it has ended",
        }.get(reason, detail or reason or outcome)
        self.lose(why)
        if outcome != "granted":
            self.phase = Phase.OVER

    def _renew_at(self, a: dict[str, Any], now: int) -> None:
        self.due = max(now + _OFTEN, int(a["sent"]) + int(a["valid_ms"]) // 3)

    def _again(self, now: int) -> int:
        """ms until a renewal that is not answered is sent again: ever sooner until the hold ends."""
        return min(_SOON, max(_OFTEN, (self.until - now) // 4))

    def _refusal(self, reason: str, detail: str) -> Error:
        if reason in ("wait_over", "missed"):
            return self._timed_out(answered=True)
        if reason == "busy" and not self.wait:
            return Busy(f"{self.called} is not free: leave wait=False out to wait for it")
        if reason == "busy":
            return Busy(f"{self.called} has too many who wait: try again later ({detail})")
        return denied(self.lock, reason, detail)

    def turn_away(self, detail: str, now: int) -> None:
        """A server has too much to do to look at this."""
        self.busy = detail or "the server is busy"
        again = {Phase.WAITING: self._repeat, Phase.HELD: self._again(now)}.get(self.phase, _SOON)
        self.due = max(self.due, now + again)

    # What time does.

    def tick(self, now: int) -> None:
        """Ends what is over by now."""
        if self.phase is Phase.HELD and now >= self.until:
            self.lose("it could not be renewed in time: the connection, the server or this program stood still for too long")
        elif self.phase is Phase.WAITING and self.give_up_at is not None and now >= self.give_up_at:
            self.leave(self._timed_out())
        elif self.phase is Phase.LEAVING and now >= self._forgotten_at:
            self.phase = Phase.OVER

    def _timed_out(self, answered: bool = False) -> TimedOut:
        sentence = f"{self.called} was not granted within {self.terms.patience or 0:g} s"
        if self.busy:
            sentence += f" ({self.busy})"
        longer = "within" if self.terms.patience == self.terms.within else "timeout"
        if self.id and not (answered or self.answered or self.busy):
            return TimedOut(
                f"{sentence}: no server has answered: give a longer {longer}= if they are busy, "
                "and look whether access rules of the broker let this client ask"
            )
        return TimedOut(f"{sentence}: give a longer {longer}=, or a smaller priority=, which is more important")

    def lose(self, why: str) -> None:
        """The hold is over. The server is told, in case that it does not know."""
        self.lost = f"{self.called} is not held any more: {why}: stop what it protects, and take the lock again"
        self.leave(None)

    def leave(self, error: Optional[Error]) -> None:
        """Takes the request back, or gives the lock back."""
        if self.phase in (Phase.WAITING, Phase.HELD):
            self.error, self.due = error, 0
            self._forgotten_at = clock() + (_ms(self.terms.lease) if self.answered else _UNHEARD)
            self.phase = Phase.LEAVING if self.id else Phase.OVER

    def _end(self, error: Error) -> None:
        self.error, self.phase = error, Phase.OVER

    # What is said to the server.

    def message(self, now: int) -> Optional[str]:
        """What is due by now; the caller has given an id."""
        more: dict[str, Any] = {}
        if self.phase is Phase.WAITING and self.raise_due:
            self.raise_due = False
            op, more["priority"] = "raise", self.priority
        elif now < self.due:
            return None
        elif self.phase is Phase.WAITING:
            op, self.acquired_at, self.due = "acquire", now, now + self._repeat
            more = self._acquire(now)
        elif self.phase is Phase.HELD:
            op, self.due = "renew", now + self._again(now)
        elif self.phase is Phase.LEAVING:
            op, self.due, self.tries = "release", now + min(_SOON << self.tries, _SELDOM), self.tries + 1
        else:
            return None
        return json.dumps({"op": op, "id": self.id, "session": self.session, "sent": now, **more})

    def _acquire(self, now: int) -> dict[str, Any]:
        more = {"resource": self.terms.resource, "priority": self.priority, "lease_ms": _ms(self.terms.lease), "renews": True}
        if not self.wait:
            more["wait_ms"] = 0
        elif self.give_up_at is not None:
            more["wait_ms"] = max(1, self.give_up_at - now)
        if self.terms.within is not None:
            more["within_ms"] = max(1, self.asked_at + _ms(self.terms.within) - now)
        if self.terms.hold is not None:
            more["hold_ms"] = _ms(self.terms.hold)
        return more

    @property
    def longest_pause(self) -> Optional[int]:
        """ms, the longest pause between two tries to connect: some of them fall into what is left
        of a hold, or of the lease of a request that waits. None: nothing is at stake."""
        if self.phase is Phase.HELD:
            return max(2 * _OFTEN, (self.until - clock()) // 8)
        return max(_SOON, _ms(self.terms.lease) // 8) if self.phase is Phase.WAITING else None

    def next(self, connected: bool) -> list[int]:
        """When to look at it again, if nothing is heard."""
        at = []
        if connected:
            at.append(0 if self.raise_due else self.due)
        if self.phase is Phase.HELD:
            at.append(self.until)
        elif self.phase is Phase.WAITING and self.give_up_at is not None:
            at.append(self.give_up_at)
        elif self.phase is Phase.LEAVING:
            at.append(self._forgotten_at)
        return at


def _ms(seconds: float) -> int:
    """Milliseconds; a short time is not none."""
    return max(1, int(seconds * 1000))
