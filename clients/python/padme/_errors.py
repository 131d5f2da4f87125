"""What can go wrong, and what to do about it."""

from __future__ import annotations


class Error(Exception):
    """The base of the errors of this package."""


class NoServer(Error, ConnectionError):
    """No broker can be reached, or nobody serves locks there."""


class Denied(Error):
    """The broker or the server refuses. Asking again in the same way does not help.

    `reason` is a word to test for: "not_authorized", "gone" (an operator ended the
    request), or a reason of docs/clients.md such as "undeclared".
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason

    def __reduce__(self) -> tuple[type[Denied], tuple[str, str]]:
        return (Denied, (self.reason, str(self)))


class Busy(Error):
    """The lock is held by another, and wait=False; or the server has too much to do."""


class TimedOut(Error, TimeoutError):
    """The lock was not granted within timeout=, or within=."""


class Lost(Error):
    """The lock is not held any more: another may hold it. Stop what it protects."""


# What to do about a reason of the server. Its own sentence comes before.
_REMEDIES = {
    "undeclared": "give as resource= one that the lock declares",
    "bad_resource": "give another resource=",
    "bad_priority": "give another priority=",
    "bad_wait": "give another timeout=",
    "bad_lease": "give another lease=",
    "unattainable": "give a longer within=, or a smaller priority=, which is more important",
    "unsupported": "leave out within=, or resource=padme.ANY",
}


def denied(lock: str, reason: str, detail: str) -> Denied:
    """The server's refusal of a request for a lock."""
    sentence = f'lock "{lock}" is denied: {detail or reason}'
    if reason in _REMEDIES:
        sentence += f": {_REMEDIES[reason]}"
    return Denied(reason, sentence)
