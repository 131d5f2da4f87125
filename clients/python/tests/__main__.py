"""python3 -m tests: all tests, each part in a process of its own, and side by side, as they mostly wait."""

from __future__ import annotations

import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

AT_ONCE = 12


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def part(test: unittest.TestCase) -> str:
    """What runs in one process: a test that has a broker of its own, or a class."""
    kind = type(test)
    return test.id() if getattr(kind, "SHARED", True) is False else f"{kind.__module__}.{kind.__qualname__}"


def run(name: str) -> tuple[str, int, str]:
    done = subprocess.run([sys.executable, "-m", "unittest", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return name, done.returncode, done.stdout


here = Path(__file__).resolve().parent
found = unittest.TestLoader().discover(str(here), top_level_dir=str(here.parent))
parts = dict.fromkeys(part(test) for test in cases(found))
red = False
with ThreadPoolExecutor(AT_ONCE) as pool:
    for name, code, printed in pool.map(run, parts):
        red = red or code != 0
        if code != 0 or "skipped" in printed:
            print(f"== {name}\n{printed}")
print(f"{len(parts)} parts: {'FAILED' if red else 'OK'}")
sys.exit(red or not parts)
