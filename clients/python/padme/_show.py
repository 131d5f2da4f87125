"""What holds for a lock as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ._ask import REPEAT, Ask, Phase
from ._errors import Error, denied
from ._settings import lock_level
from ._terms import Terms


@dataclass(frozen=True)
class Shown:
    """How a lock is set up; `pubsub-node lock configure` changes it."""

    models: str
    """How it chooses who is next, as docs/choosing.md has it: "level-forward-forward-forward"."""
    resources: tuple[str, ...]
    """Those that it declares."""
    open: bool
    """Whether any other name is a resource, too."""
    ttl: float
    """Seconds after which a silent holder counts as dead."""


class Show(Ask):
    """A question for that. It leaves nothing at a server."""

    def __init__(self, lock: str, changed: Callable[[], None]) -> None:
        super().__init__(Terms(lock, lock_level(lock)), 0, changed, None)
        self.shown: Optional[Shown] = None

    def message(self, now: int) -> Optional[str]:
        if self.phase is not Phase.WAITING or now < self.due:
            return None
        self.due = now + REPEAT
        return json.dumps({"op": "show", "id": self.id, "session": self.session, "sent": now})

    def hear(self, a: dict[str, Any], now: int) -> None:
        if a["outcome"] == "shown":
            resources = tuple(str(name) for name in a.get("resources", ()))
            self.shown = Shown(str(a["models"]), resources, bool(a.get("open", False)), int(a["ttl_ms"]) / 1000)
            self.leave(None)
        elif a["outcome"] == "denied":
            detail = str(a.get("detail", ""))
            if detail.startswith("the server is busy") or a.get("reason") in ("overload", "too_fast"):
                self.turn_away(detail, now)
            else:
                self.leave(denied(self.lock, str(a.get("reason", "")), detail))

    def leave(self, error: Optional[Error]) -> None:
        if self.phase is Phase.WAITING:
            self.error, self.phase = error, Phase.OVER

    @property
    def answer(self) -> Shown:
        """What was heard. Raises what was heard instead."""
        if self.shown is None:
            raise self.error or Error(f"{self.called} was asked about in vain")
        return self.shown
