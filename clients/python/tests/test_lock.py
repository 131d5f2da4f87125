"""Taking locks and giving them back, at both brokers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import padme

from .world import HERE, World, eventually, node, workers


class Embedded(World):
    def test_a_lock_is_held_until_the_end_of_its_with(self) -> None:
        a, b = self.client(), self.client()
        with a.lock("crane", resource="hook", priority=5, timeout=30) as hold:
            hold.check()
            self.assertTrue(hold.valid)
            self.assertEqual((hold.lock, hold.resource, hold.priority), ("crane", "hook", 5))
            self.assertGreater(hold.remaining, 0.5)
            with self.assertRaises(padme.Busy) as busy:
                b.lock("crane", resource="hook", wait=False).acquire()
            self.assertIn("wait=False", str(busy.exception))
            first = hold.fence
        self.assertFalse(hold.valid)
        with self.assertRaises(padme.Lost):
            hold.check()
        with b.lock("crane", resource="hook", wait=False) as hold:
            self.assertGreater(hold.fence, first)

    def test_one_warning_for_all_names_of_a_lock(self) -> None:
        client = self.client()
        with self.assertLogs("padme") as said:
            for i in range(5):
                with client.lock("parts", resource=f"r{i}", timeout=60):
                    pass
        about = [line for line in said.output if '"parts"' in line]
        self.assertEqual(len(about), 1, said.output)
        self.assertIn("pubsub-node lock create parts --open", about[0])

    def test_the_end_of_a_program_frees_what_its_threads_wait_for(self) -> None:
        begin = "import sys, time, threading, padme\nfrom concurrent.futures import ThreadPoolExecutor\nc = padme.connect(sys.argv[1])\n"
        wait = "def wait(n=0):\n    with c.lock('end', timeout=60): print('in', flush=True)\n"
        hold = "hold = c.lock('end', timeout=60).acquire()\n"
        pool = "p = ThreadPoolExecutor(3)\nhold = p.submit(c.lock('end', timeout=60).acquire).result()\n"
        work = "def work():\n    for _ in range(300):\n        hold.check(); time.sleep(0.01)\n    print('worked', flush=True)\n"
        thread = "threading.Thread(target={}).start()\n".format
        for what, program, want in (
            ("a thread", begin + wait + hold + thread("wait"), "in"),
            ("an executor", begin + wait + hold + "ThreadPoolExecutor().submit(wait)\n", "in"),
            ("an executor that has it", begin + wait + pool + "p.submit(wait)\n", "in"),
            ("an executor has it", begin + wait + pool + thread("wait"), "in"),
            ("one works with it", begin + wait + work + hold + thread("work") + thread("wait"), "worked in"),
            ("all have their own", begin + wait + "[" + thread("wait").strip() + " for _ in range(3)]\n", "in in in"),
        ):
            with self.subTest(what):
                child = subprocess.run(
                    [sys.executable, "-c", program, self.url], env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                    stdout=subprocess.PIPE, text=True, timeout=90,
                )
                self.assertEqual((child.returncode, child.stdout.split()), (0, want.split()))

    def test_the_one_liner(self) -> None:
        with padme.lock("crane", self.url, patience=float("inf")) as first:
            first.check()
        with padme.lock("crane", self.url, wait=False, patience=60) as second:
            self.assertGreater(second.fence, first.fence)

    def test_a_request_keeps_its_place_for_longer_than_its_lease(self) -> None:
        a, b, c = self.client(), self.client(), self.client()
        order: list[str] = []

        def wait(name: str, request: padme.Request) -> None:
            with request:
                order.append(name)

        for _ in range(5):  # a machine that is busy may let a lease end
            order.clear()
            with a.lock("lease"):
                early = threading.Thread(target=wait, args=("early", b.lock("lease", lease=0.6)))
                early.start()
                time.sleep(0.2)
                late = threading.Thread(target=wait, args=("late", c.lock("lease")))
                late.start()
                time.sleep(1.5)
            early.join(60)
            late.join(60)
            if order == ["early", "late"]:
                return
        self.fail("it was always put behind whoever came later")

    def test_waiting_ends_after_timeout(self) -> None:
        a, b = self.client(), self.client()
        with a.lock("crane") as hold:
            began = time.monotonic()
            with self.assertRaises(padme.TimedOut) as late:
                b.lock("crane", timeout=0.5).acquire()
            self.assertGreaterEqual(time.monotonic() - began, 0.49)
            self.assertIsInstance(late.exception, TimeoutError)
            self.assertIn("0.5 s", str(late.exception))
            hold.check()
        self.assertTrue(self.is_free(b, "crane"))

    def test_a_hold_is_renewed_for_as_long_as_it_is_used(self) -> None:
        a, b = self.client(), self.client()
        with a.lock("crane", lease=1.0) as hold:
            end = time.monotonic() + 4  # beyond its lease and the time that the server's own session lasts
            while time.monotonic() < end:
                hold.check()
                time.sleep(0.05)
            self.assertFalse(self.is_free(b, "crane"))

    def test_priority_decides_who_is_next_and_can_be_raised(self) -> None:
        clients = [self.client() for _ in range(4)]
        order: list[str] = []

        def enter(request: padme.Request, name: str) -> None:
            with request:
                order.append(name)

        requests = {
            "late": clients[1].lock("crane", priority=300),
            "middle": clients[2].lock("crane", priority=200),
            "raised": clients[3].lock("crane", priority=400),
        }
        threads = []
        with clients[0].lock("crane", priority=1):
            for i, (name, request) in enumerate(requests.items()):
                threads.append(threading.Thread(target=enter, args=(request, name)))
                threads[-1].start()
                eventually(f"{name} waits", lambda: request.position)
            self.assertEqual(requests["middle"].priority, 200)
            eventually("the last is the third", lambda: requests["raised"].position == 3)
            requests["raised"].raise_priority(50)
            eventually("it is the next", lambda: requests["raised"].position == 1)
            with self.assertRaises(ValueError):
                requests["middle"].raise_priority(201)
        for t in threads:
            t.join()
        self.assertEqual(order, ["raised", "middle", "late"])

    def test_an_exception_leaves_nothing_held(self) -> None:
        a, b = self.client(), self.client()
        with self.assertRaises(ZeroDivisionError):
            with a.lock("crane"):
                1 / 0
        self.assertTrue(self.is_free(b, "crane"))

    def test_closing_a_client_leaves_nothing_held(self) -> None:
        a, b = self.client(), self.client()
        told: list[padme.Hold] = []
        hold = a.lock("crane", on_lost=told.append).acquire()
        waiting = a.lock("crane")
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                waiting.acquire()
            except padme.Error as err:
                errors.append(err)

        thread = threading.Thread(target=wait)
        thread.start()
        eventually("the second waits", lambda: waiting.position)
        a.close()
        thread.join()
        self.assertIn("closed", str(errors[0]))
        with self.assertRaisesRegex(padme.Lost, "closed"):
            hold.check()
        with self.assertRaisesRegex(padme.Error, "connect again"):
            a.lock("crane").acquire()
        self.assertTrue(self.is_free(b, "crane"))
        self.assertEqual(told, [])  # whoever closes knows

    def test_a_program_that_ends_leaves_nothing_held(self) -> None:
        program = f"import padme; hold = padme.lock('crane', {self.url!r}).acquire(); print(hold.fence)"
        child = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(HERE.parent)}, capture_output=True, check=True)
        with self.client().lock("crane", wait=False) as hold:
            self.assertGreater(hold.fence, int(child.stdout))

    def test_a_client_that_nobody_has_any_more_ends(self) -> None:
        before = workers()
        a = padme.connect(self.url)
        with a.lock("crane", on_lost=print) as hold:
            a.cycle = hold  # type: ignore[attr-defined]
        del a, hold
        gc.collect()
        eventually("its thread ends", lambda: workers() == before)

    def test_an_operator_ends_what_waits(self) -> None:
        a, b = self.client(), self.client(name="waiter")
        errors: list[padme.Error] = []
        request = b.lock("crane", lease=1)

        def wait() -> None:
            try:
                request.acquire()
            except padme.Error as err:
                errors.append(err)

        with a.lock("crane"):
            thread = threading.Thread(target=wait)
            thread.start()
            eventually("it waits", lambda: request.position)
            argv = [node(), "lock", "evict", "crane", "waiter", "--listen", "1s", "--broker", self.url]
            subprocess.run(argv, check=True, capture_output=True, timeout=60)
            thread.join()
        self.assertIsInstance(errors[0], padme.Denied)
        self.assertIn("operator", str(errors[0]))

    def test_a_request_may_be_used_again(self) -> None:
        a = self.client()
        request = a.lock("crane", wait=False)
        with request as first:
            with self.assertRaisesRegex(RuntimeError, "held by this very request"):
                request.acquire()
        with request as second:
            self.assertGreater(second.fence, first.fence)
            second.release()  # and the with does not mind
        second.release()

    def test_ctrl_c_while_waiting_takes_the_request_back(self) -> None:
        a, b = self.client(), self.client()
        with a.lock("crane", priority=1):
            child = self.child("crane", "--priority", "0")
            child.await_line("asks")
            before = b.lock("crane", priority=50, lease=1)  # its place is told with each renewal
            entered = threading.Event()

            def wait() -> None:
                with before:
                    entered.set()

            thread = threading.Thread(target=wait)
            thread.start()
            eventually("the child waits before it", lambda: before.position == 2)
            child.signal(signal.SIGINT)
            self.assertEqual(child.wait(), 0)
            child.await_line("interrupted")
            eventually("it is the next again", lambda: before.position == 1)
        thread.join()
        self.assertTrue(entered.is_set())

    def test_more_threads_than_a_server_takes(self) -> None:
        a = self.client()
        order: list[int] = []

        def work(priority: int) -> None:
            with a.lock("crane", priority=priority):
                order.append(priority)

        with mock.patch("padme._worker._MOST", 32), a.lock("crane", priority=0):
            threads = [threading.Thread(target=work, args=(i,)) for i in range(50, 0, -1)]
            for t in threads:
                t.start()
            eventually("they wait", lambda: len(a._worker._asks) == 51 and sum(ask.answered for ask in a._worker._asks) >= 31)
            self.assertEqual(sum(bool(ask.id) for ask in a._worker._asks), 32)
            with self.assertRaises(padme.Busy):
                a.lock("crane", wait=False).acquire()
        for t in threads:
            t.join()
        self.assertEqual(len(order), 50)
        self.assertEqual(order[-18:], sorted(order[-18:]))  # those that came last to the server, as they are no less important

    def test_many_threads_and_one_client(self) -> None:
        a = self.client()
        inside, entries, fences = 0, 0, []

        def work() -> None:
            nonlocal inside, entries
            for _ in range(10):
                with a.lock("crane") as hold:
                    inside += 1
                    self.assertEqual(inside, 1)
                    fences.append(hold.fence)
                    time.sleep(0.001)
                    hold.check()
                    inside -= 1
                    entries += 1

        threads = [threading.Thread(target=work) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(entries, 50)
        self.assertEqual(fences, sorted(set(fences)))

    def test_a_lock_with_an_unusual_name(self) -> None:
        a, b, name = self.client(name="größe 1/2"), self.client(), "größe 50% of 146.520~"
        with a.lock(name, resource="a/b!") as hold:
            self.assertEqual((hold.lock, hold.resource), (name, "a/b!"))
            with self.assertRaises(padme.Busy):
                b.lock(name, resource="a/b!", wait=False).acquire()


class Mosquitto(Embedded):
    KIND = "mosquitto"
    SERVERS = ("server-1",)


class Declared(World):
    def test_any_resource(self) -> None:
        argv = [node(), "lock", "create", "frequencies", "--resources", "low,high", "--broker", self.url]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)
        a = self.client()
        request = a.lock("frequencies", resource=padme.ANY)
        with request as one, a.lock("frequencies", resource=padme.ANY) as other:
            self.assertEqual({one.resource, other.resource}, {"low", "high"})
            with self.assertRaises(padme.Busy):
                a.lock("frequencies", resource=padme.ANY, wait=False).acquire()
        with self.assertRaisesRegex(padme.Denied, "middle.*resource=") as denied:
            a.lock("frequencies", resource="middle").acquire()
        self.assertEqual(denied.exception.reason, "undeclared")
        shown = a.show("frequencies")
        self.assertEqual((set(shown.resources), shown.open, shown.ttl), ({"low", "high"}, False, 3.0))
        self.assertIn("level", shown.models)

    def test_deadlines(self) -> None:
        argv = [node(), "lock", "create", "press", "--models", "deadline-forward-forward-forward", "--broker", self.url]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)
        a, b = self.client(), self.client()
        with a.lock("press", within=30, hold=20):
            with self.assertRaisesRegex(padme.Denied, "longer within=") as denied:
                b.lock("press", within=2).acquire()  # as it will be held for longer
            self.assertEqual(denied.exception.reason, "unattainable")
        with a.lock("crane"), self.assertRaisesRegex(padme.TimedOut, "longer within="):
            b.lock("crane", within=0.3, timeout=60).acquire()


if __name__ == "__main__":
    unittest.main()
