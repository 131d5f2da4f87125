"""usage: child.py URL LOCK [--priority N] [--lease SECONDS] [--fork]

Takes a lock and prints "in FENCE"; looks all the time whether it holds it, until a line
comes in; then prints "out", or "lost" and what check said, when it did. on_lost prints
"on_lost FENCE". With --fork a child of it sleeps meanwhile, and prints what it sees of
the hold.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time

import padme

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("lock")
parser.add_argument("--priority", type=int, default=100)
parser.add_argument("--lease", type=float, default=10.0)
parser.add_argument("--fork", action="store_true")
args = parser.parse_args()


def told(line: str) -> None:
    print(line, flush=True)


def fork(hold: padme.Hold) -> None:
    if os.fork():
        return
    told(f"child valid {hold.valid}")
    try:
        hold.check()
    except padme.Lost as err:
        told(f"child check {err}")
    hold.release()  # of no effect
    time.sleep(600)
    os._exit(0)


told("asks")
try:
    with padme.connect(args.url, patience=60) as client:
        request = client.lock(args.lock, priority=args.priority, lease=args.lease, on_lost=lambda hold: told(f"on_lost {hold.fence}"))
        with request as hold:
            told(f"in {hold.fence}")
            if args.fork:
                fork(hold)
            try:
                while not select.select([sys.stdin], [], [], 0.02)[0]:
                    hold.check()
            except padme.Lost as err:
                told(f"lost {err}")
                time.sleep(0.2)  # on_lost is on its way
        told("out")
except padme.Lost as err:
    told(f"left {err}")
except KeyboardInterrupt:
    told("interrupted")
