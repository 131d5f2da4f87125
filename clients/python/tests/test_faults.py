"""What breaks: servers, connections, processes."""

from __future__ import annotations

import json
import signal
import threading
import time
import unittest

import paho.mqtt.publish as publish
import paho.mqtt.subscribe as subscribe

import padme

from .world import Proxy, World, eventually


class Embedded(World):
    FLAGS = ("--no-locks",)  # so that a server may be killed
    SERVERS = ("server-1", "server-2")
    SHARED = False

    def test_a_killed_server_is_replaced(self) -> None:
        a, b = self.client(), self.client()
        told: list[padme.Hold] = []
        got: list[padme.Hold] = []

        def wait() -> None:
            with b.lock("crane") as hold:
                got.append(hold)

        with self.assertRaises(padme.Lost) as lost:
            with a.lock("crane", on_lost=told.append) as hold:
                waiting = threading.Thread(target=wait)
                waiting.start()
                time.sleep(0.5)
                self.kill_active()
                eventually("the hold is lost", lambda: not hold.valid)
                self.assertEqual(hold.remaining, 0)
        self.assertIn("not held any more", str(lost.exception))
        eventually("on_lost was called", lambda: told)
        self.assertEqual(told, [hold])
        waiting.join()
        self.assertGreater(got[0].fence, hold.fence)
        with a.lock("crane") as again:  # the client goes on
            self.assertGreater(again.fence, got[0].fence)

    def kill_active(self) -> None:
        """Kills the server that answers, which an answer names."""
        message = subscribe.simple("padme/v1/default/lock/crane/client/+/answer", hostname="127.0.0.1", port=self.site.port)
        self.site.servers[json.loads(message.payload)["gateway"]].popen.kill()

    def test_a_connection_that_is_cut(self) -> None:
        proxy = Proxy(self, self.site.port)
        a, b = self.client(proxy.url), self.client()
        told = threading.Event()
        with self.assertRaises(padme.Lost):
            with a.lock("crane", on_lost=lambda hold: told.set()) as hold:
                proxy.cut()
                self.assertTrue(hold.valid)  # for as long as it was promised
                eventually("it is lost", lambda: not hold.valid)
                with self.assertRaises(padme.Lost):
                    hold.check()
                eventually("on_lost was called", told.is_set)
        with b.lock("crane") as other:
            self.assertGreater(other.fence, hold.fence)
            with self.assertRaisesRegex(padme.TimedOut, "no broker|is lost"):
                a.lock("crane", timeout=0.3).acquire()
            proxy.heal()
            with self.assertRaises(padme.Busy):
                a.lock("crane", wait=False).acquire()
        with a.lock("crane") as again:
            self.assertGreater(again.fence, other.fence)

    def test_who_waits_outlives_a_cut(self) -> None:
        proxy = Proxy(self, self.site.port)
        a, b = self.client(), self.client(proxy.url)
        request = b.lock("crane")
        got: list[int] = []

        def wait() -> None:
            with request as hold:
                got.append(hold.fence)

        with a.lock("crane") as hold:
            thread = threading.Thread(target=wait)
            thread.start()
            eventually("it waits", lambda: request.position)
            proxy.cut()
            time.sleep(0.5)
            proxy.heal()
            time.sleep(0.5)
            hold.check()
        thread.join()
        self.assertGreater(got[0], hold.fence)

    def test_a_paused_process_finds_that_it_has_lost(self) -> None:
        child = self.child("crane")
        fence = int(child.await_line("in "))
        a = self.client()
        child.signal(signal.SIGSTOP)
        with a.lock("crane") as hold:  # when nobody can believe in the old hold any more
            self.assertGreater(hold.fence, fence)
            child.signal(signal.SIGCONT)
            self.assertIn("not held any more", child.await_line("lost "))
            self.assertEqual(int(child.await_line("on_lost ")), fence)
            self.assertIn("not held any more", child.await_line("left "))
            self.assertEqual(child.wait(), 0)
            self.assertNotIn("\nout", child.printed)

    def test_a_fork_holds_nothing(self) -> None:
        child = self.child("crane", "--fork")
        child.await_line("in ")
        self.assertEqual(child.await_line("child valid "), "False")
        self.assertIn("fork", child.await_line("child check "))
        a = self.client()
        time.sleep(0.2)
        self.assertFalse(self.is_free(a, "crane"))  # the parent goes on
        child.say()
        child.await_line("out")
        self.assertTrue(self.is_free(a, "crane"))

    def test_a_killed_process_holds_nothing_though_its_fork_lives(self) -> None:
        child = self.child("crane", "--fork", "--lease", "600")
        child.await_line("in ")
        child.await_line("child check ")
        child.popen.kill()
        self.client().lock("crane", timeout=60).acquire().release()  # as the broker has published its will


class Mosquitto(Embedded):
    KIND = "mosquitto"


class LongTTL(World):
    FLAGS = ("--ttl", "10s")

    def test_an_outage_costs_no_hold_that_is_longer(self) -> None:
        proxy = Proxy(self, self.site.port)
        with self.client(proxy.url).lock("crane") as hold:
            eventually("it was just renewed", lambda: hold.remaining > 9)
            proxy.cut()
            eventually("little is left of it", lambda: hold.remaining < 3)
            proxy.heal()
            eventually("it is renewed", lambda: not hold.valid or hold.remaining > 5)
            hold.check()


class Nobody(World):
    """Without servers."""

    KIND = "mosquitto"
    SERVERS = ()
    SHARED = False

    def test_no_broker(self) -> None:
        self.site.broker.popen.kill()
        self.site.broker.popen.wait()
        with self.assertRaises(padme.NoServer) as none:
            padme.connect(self.url)
        self.assertIsInstance(none.exception, ConnectionError)
        self.assertRegex(str(none.exception), f"{self.url}.*refused.*pubsub-node broker.*PADME_BROKER")
        with self.assertRaises(padme.NoServer):
            padme.lock("crane", self.url).acquire()

    def test_several_urls(self) -> None:
        with padme.connect(f"mqtt://127.0.0.1:1,{self.url}"):
            pass

    def test_nobody_serves(self) -> None:
        a = self.client(patience=1.5)
        for how in ({}, {"wait": False}, {"timeout": 30}, {"timeout": 1.4}):
            with self.subTest(how), self.assertRaisesRegex(padme.NoServer, 'nobody serves lock "crane".*pubsub-node serve'):
                a.lock("crane", **how).acquire()

    def test_a_server_that_comes_later(self) -> None:
        a = self.client()
        threading.Timer(1.5, lambda: self.site.serve("server-1")).start()
        with a.lock("crane"):
            pass

    def test_a_server_that_stands_still_is_busy(self) -> None:
        presence = json.dumps({"alive": True, "userData": {"serves": "locks"}})
        publish.single("padme/v1/default/presence/server-1", presence, 1, True, "127.0.0.1", self.site.port)
        with self.assertRaisesRegex(padme.Busy, "server-1"):
            self.client(patience=1).lock("crane", wait=False).acquire()


if __name__ == "__main__":
    unittest.main()
