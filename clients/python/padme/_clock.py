"""The clock by which holds are valid."""

from __future__ import annotations

import time

# CLOCK_BOOTTIME goes on while the machine sleeps. So does CLOCK_MONOTONIC on macOS, and
# time.monotonic on Windows.
_clock = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> int:
    """Milliseconds that never go back, and go on while the machine sleeps."""
    if _clock is None:
        return int(time.monotonic() * 1000)
    return time.clock_gettime_ns(_clock) // 1_000_000
