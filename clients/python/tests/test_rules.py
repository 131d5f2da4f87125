"""What needs neither a broker nor time: addresses, names, and how a request stands."""

from __future__ import annotations

import json
import pickle
import unittest
from typing import Any
from unittest import mock

import padme
from padme._ask import Ask, Phase
from padme._settings import level, parse_url, settings
from padme._terms import terms


GOOD: dict[str, Any] = {
    "lock": "crane", "resource": "default", "priority": 1, "timeout": None, "wait": True, "within": None, "hold": None, "lease": 10.0,
}


def chosen(**given: Any) -> Any:
    names = ("broker", "user", "password", "name", "cafile", "cert", "key")
    return settings(*(given.get(n) for n in names), given.get("domain", "default"), "padme", given.get("patience", 5.0))


class Settings(unittest.TestCase):
    def test_urls(self) -> None:
        for url, host, port, tls, path in (
            ("mqtt://a", "a", 1883, False, None), ("a:1884", "a", 1884, False, None), ("mqtts://a", "a", 8883, True, None),
            ("mqtt://[::1]:7", "::1", 7, False, None), ("ws://a/x", "a", 80, False, "/x"), ("wss://a", "a", 443, True, "/mqtt"),
        ):
            b = parse_url(url)
            self.assertEqual((b.host, b.port, b.tls, b.path), (host, port, tls, path))

    def test_bad_urls(self) -> None:
        for url, why in (
            ("http://a", 'unknown scheme "http".*write it as'), ("mqtt://", "names no host"), ("mqtt://u:p@a", "user= and password="),
            ("mqtt://a:x", "write it as"),
        ):
            with self.subTest(url), self.assertRaisesRegex(ValueError, why):
                parse_url(url)

    def test_the_environment(self) -> None:
        with mock.patch.dict("os.environ", {"PADME_BROKER": "mqtt://x,mqtt://y", "PADME_USER": "u", "PADME_PASSWORD": "p"}):
            s = chosen()
            self.assertEqual(([b.host for b in s.brokers], s.user, s.password, s.name), (["x", "y"], "u", "p", "u"))
            self.assertEqual(chosen(broker="mqtt://z").brokers[0].host, "z")

    def test_two_processes_have_two_names(self) -> None:
        self.assertNotEqual(chosen().name, chosen().name)

    def test_bad_settings(self) -> None:
        for given, why in (
            ({"cert": "a"}, "belong together"), ({"cafile": "a"}, "mqtts://"), ({"patience": 0}, "patience="), ({"name": ""}, "1 to 128"),
            ({"name": "+"}, "wildcard"), ({"name": " "}, "blank"),
            ({"domain": "a\0"}, "U\\+0000"), ({"password": "x"}, "give user="), ({"broker": "mqtts://a", "cafile": "/no/ca.pem"}, "/no/ca.pem"),
        ):
            with self.subTest(given), self.assertRaisesRegex(ValueError, why):
                chosen(**given)

    def test_levels(self) -> None:
        for name, encoded in (("crane", "crane"), ("146.520", "146%2E520"), ("a b/*$+#>%~", "a%20b%2F%2A%24%2B%23%3E%25%7E"), ("größe", "größe")):
            self.assertEqual(level(name, "lock"), encoded)
        for name in ("", "x" * 129, "a\n", "\ud800", "\uffff"):
            with self.subTest(name), self.assertRaises(ValueError):
                level(name, "lock")
        self.assertEqual(chosen(name="a.b").client_topic("crane", "answer"), "padme/v1/default/lock/crane/client/a%2Eb/answer")

    def test_bad_terms(self) -> None:
        terms(**GOOD)
        terms(**{**GOOD, "resource": padme.ANY})
        for given, kind, why in (
            ({"priority": 1.5}, TypeError, "smaller is more important"), ({"priority": True}, TypeError, "int"),
            ({"priority": 2**63}, ValueError, "64 bits"), ({"timeout": 0}, ValueError, "wait=False"), ({"timeout": -1}, ValueError, "timeout="),
            ({"timeout": 1, "wait": False}, ValueError, "timeout="), ({"lease": 0.1}, ValueError, "lease="),
            ({"lock": "gateway"}, ValueError, "another"), ({"lock": "*"}, ValueError, "another"), ({"resource": ""}, ValueError, "resource"),
            ({"lock": "+"}, ValueError, 'lock "\\+" is a wildcard'), ({"lock": "#"}, ValueError, 'lock "#" is a wildcard'), ({"lock": " \u3000"}, ValueError, "blank"),
            ({"resource": "#"}, ValueError, 'resource "#" is a wildcard'), ({"resource": " "}, ValueError, "blank"),
            ({"lock": None}, TypeError, "str"), ({"lock": "yard/b"}, ValueError, 'lock\\("yard", resource="b"\\)'), ({"lock": "x" * 121}, ValueError, "1 to 120"),
            ({"timeout": "5"}, TypeError, "number of seconds"), ({"lease": "5"}, TypeError, "number of seconds"), ({"wait": 5}, TypeError, "timeout="),
            ({"within": 0}, ValueError, "within="), ({"within": 1, "wait": False}, ValueError, "within="), ({"hold": float("nan")}, ValueError, "hold="),
        ):
            with self.subTest(given), self.assertRaisesRegex(kind, why):
                terms(**{**GOOD, **given})

    def test_what_is_called_on_a_loss(self) -> None:
        async def lost(hold: padme.aio.Hold) -> None:
            pass

        for on_lost, why in ((5, "give a function"), (lost, "padme.aio")):
            with self.subTest(on_lost), self.assertRaisesRegex(TypeError, why):
                padme.lock("crane", on_lost=on_lost)  # type: ignore[arg-type]

    def test_errors_survive_pickling(self) -> None:
        err = pickle.loads(pickle.dumps(padme.Denied("undeclared", "no")))
        self.assertEqual((err.reason, str(err)), ("undeclared", "no"))


class Requests(unittest.TestCase):
    """In milliseconds; the request is made at 0 and sends its acquire then."""

    def ask(self, **given: Any) -> Ask:
        with mock.patch("padme._ask.clock", return_value=0):
            ask = Ask(terms(**{**GOOD, **given}), 100, lambda: None, None)
        ask.id, ask.session = "1", "s"
        self.sent(ask, 0)
        return ask

    def sent(self, ask: Ask, now: int) -> Any:
        text = ask.message(now)
        return None if text is None else json.loads(text)

    def answer(self, ask: Ask, now: int, outcome: str, **more: Any) -> None:
        ask.hear({"id": "1", "session": "s", "outcome": outcome, "priority": ask.priority, "resource": "default", **more}, now)

    def held(self) -> Ask:
        ask = self.ask()
        self.answer(ask, 10, "granted", fence="7", sent=0, valid_ms=3000)
        self.assertEqual((ask.phase, ask.fence, ask.until), (Phase.HELD, 7, 3000))
        return ask

    def test_what_is_not_answered_is_repeated(self) -> None:
        ask = self.ask(timeout=5)
        self.assertIsNone(self.sent(ask, 999))
        again = self.sent(ask, 1000)
        self.assertEqual((again["op"], again["id"], again["sent"], again["wait_ms"]), ("acquire", "1", 1000, 4000))

    def test_who_waits_renews_after_a_third(self) -> None:
        ask = self.ask()
        self.answer(ask, 5, "waiting", position=3, sent=0, valid_ms=9900)
        self.assertEqual(ask.position, 3)
        self.assertIsNone(self.sent(ask, 3299))
        self.assertEqual(self.sent(ask, 3300)["op"], "acquire")

    def test_a_hold_is_renewed_after_a_third(self) -> None:
        ask = self.held()
        self.assertIsNone(self.sent(ask, 999))
        self.assertEqual(self.sent(ask, 1000)["op"], "renew")
        self.assertEqual(self.sent(ask, 1500)["op"], "renew")  # as it was not answered
        self.answer(ask, 1510, "granted", op="renew", fence="7", sent=1000, valid_ms=3000)
        self.assertEqual(ask.until, 4000)
        self.answer(ask, 1520, "granted", op="renew", fence="7", sent=500, valid_ms=3000)  # late, and of no effect
        self.assertEqual(ask.until, 4000)

    def test_a_hold_is_renewed_ever_sooner_until_it_ends(self) -> None:
        ask = self.held()
        sent = [now for now in range(3000) if self.sent(ask, now)]
        self.assertEqual(sent[:4], [1000, 1500, 1875, 2156])  # none of them is answered
        self.assertGreaterEqual(sent[-1], 2950)
        self.assertGreaterEqual(min(b - a for a, b in zip(sent, sent[1:])), 50)

    def test_a_hold_that_has_little_left_is_renewed_to_the_end(self) -> None:
        ask, now = self.held(), 2900  # as while its root is replaced
        self.answer(ask, now, "granted", op="renew", fence="7", sent=now, valid_ms=100)
        self.assertIsNone(self.sent(ask, 2949))
        self.assertEqual(self.sent(ask, 2950)["op"], "renew")

    def test_a_hold_comes_back_before_it_ends(self) -> None:
        ask = self.held()
        with mock.patch("padme._ask.clock", lambda: 1000):
            self.assertEqual(ask.longest_pause, 250)
        with mock.patch("padme._ask.clock", lambda: 2990):
            self.assertEqual(ask.longest_pause, 100)
        ask.leave(None)
        self.assertIsNone(ask.longest_pause)

    def test_a_hold_ends_by_its_own_clock_and_does_not_come_back(self) -> None:
        ask = self.held()
        ask.tick(2999)
        self.assertIs(ask.phase, Phase.HELD)
        self.answer(ask, 3000, "granted", op="renew", fence="7", sent=1000, valid_ms=3000)
        self.assertIs(ask.phase, Phase.LEAVING)
        self.assertIn("renewed in time", ask.lost)
        self.assertEqual(self.sent(ask, 3000)["op"], "release")

    def test_a_grant_that_was_too_long_on_its_way_is_not_believed(self) -> None:
        ask = self.ask()
        self.answer(ask, 3000, "granted", fence="7", sent=0, valid_ms=3000)
        self.assertIs(ask.phase, Phase.WAITING)
        self.assertEqual(self.sent(ask, 3200)["op"], "acquire")

    def test_a_hold_that_the_server_ends(self) -> None:
        for reason, why in (("unknown", "is gone"), ("gone", "cut"), ("ended", "has ended"), ("", "expired")):
            ask = self.held()
            self.answer(ask, 100, "expired", reason=reason)
            self.assertIs(ask.phase, Phase.OVER)
            self.assertRegex(ask.lost, why)

    def test_another_fence_is_another_hold(self) -> None:
        ask = self.held()
        self.answer(ask, 100, "granted", op="renew", fence="8", sent=90, valid_ms=3000)
        self.assertTrue(ask.lost)

    def test_who_waits_asks_anew_when_the_server_ends_it(self) -> None:
        ask = self.ask()
        self.answer(ask, 5, "waiting", position=1, sent=0, valid_ms=9900)
        self.answer(ask, 900, "lost", reason="ended")
        self.assertEqual((ask.phase, ask.id, ask.due), (Phase.WAITING, "", 900))

    def test_an_operator_ends_it_and_a_last_will_does_not(self) -> None:
        for afresh, phase in ((True, Phase.OVER), (False, Phase.WAITING)):
            ask = self.ask()
            ask.afresh = afresh
            self.answer(ask, 5, "lost", reason="gone")
            self.assertIs(ask.phase, phase)
        self.assertIsNone(ask.error)

    def test_refusals(self) -> None:
        for given, reason, kind, why in (
            ({"wait": False}, "busy", padme.Busy, "wait=False"), ({}, "busy", padme.Busy, "too many"),
            ({"timeout": 2}, "wait_over", padme.TimedOut, "2 s"), ({}, "undeclared", padme.Denied, "resource="),
            ({"within": 2}, "missed", padme.TimedOut, "longer within="), ({"within": 2}, "unattainable", padme.Denied, "longer within="),
        ):
            ask = self.ask(**given)
            self.answer(ask, 5, "denied", op="acquire", reason=reason, detail="because")
            self.assertIs(ask.phase, Phase.OVER)
            self.assertIsInstance(ask.error, kind)
            self.assertRegex(str(ask.error), why)

    def test_a_refused_message_is_not_a_refused_request(self) -> None:
        ask = self.ask()
        self.answer(ask, 5, "denied", op="raise", reason="bad_priority", detail="no")
        self.assertIs(ask.phase, Phase.WAITING)

    def test_a_busy_server_is_asked_again(self) -> None:
        for reason in ("overload", "too_many", "too_fast"):
            ask = self.ask()
            self.answer(ask, 5, "denied", op="acquire", reason=reason, detail="enough")
            self.assertIs(ask.phase, Phase.WAITING)
            self.assertIsNone(self.sent(ask, 1004))
            self.assertEqual(self.sent(ask, 1005)["op"], "acquire")

            ask = self.ask(wait=False)
            self.answer(ask, 5, "denied", op="acquire", reason=reason, detail="enough")
            self.assertIsInstance(ask.error, padme.Busy)
            self.assertEqual(self.sent(ask, 5)["op"], "release")

    def test_a_server_that_is_not_ready_does_not_end_the_waiting(self) -> None:
        for given in ({"timeout": 5}, {"within": 5}):
            ask = self.ask(**given)
            self.answer(ask, 5, "denied", op="acquire", reason="not_ready", detail="its root has just begun")
            self.assertEqual((ask.phase, ask.id), (Phase.WAITING, ""))  # an id that was denied stays so
            self.assertIsNone(self.sent(ask, 1004))
            ask.id = "2"
            again = self.sent(ask, 1005)
            self.assertEqual((again["op"], again["id"], again["wait_ms"]), ("acquire", "2", 3995))
            ask.tick(5000)
            self.assertIsInstance(ask.error, padme.TimedOut)
            self.assertRegex(str(ask.error), "its root has just begun")

        ask = self.ask(wait=False)
        self.answer(ask, 5, "denied", op="acquire", reason="not_ready", detail="its root has just begun")
        self.assertIsInstance(ask.error, padme.Denied)

    def test_a_release_that_is_not_taken_is_repeated(self) -> None:
        ask = self.held()
        ask.leave(None)
        self.assertEqual(self.sent(ask, 20)["op"], "release")
        self.answer(ask, 21, "denied", op="release", reason="too_many")
        self.assertIs(ask.phase, Phase.LEAVING)
        self.assertEqual(self.sent(ask, 521)["op"], "release")

    def test_a_deadline_is_counted_from_the_first_asking(self) -> None:
        ask = self.ask(within=5, timeout=9, hold=2)
        again = self.sent(ask, 1000)
        self.assertEqual((again["within_ms"], again["wait_ms"], again["hold_ms"]), (4000, 4000, 2000))
        ask.tick(5000)
        self.assertIsInstance(ask.error, padme.TimedOut)

    def test_who_was_never_answered_is_told_so(self) -> None:
        for given, longer in (({"timeout": 5}, "timeout="), ({"within": 5}, "within=")):
            ask = self.ask(**given)
            ask.tick(5000)
            self.assertRegex(str(ask.error), "not granted within 5 s: no server has answered.* access rules")
            self.assertNotIn("priority", str(ask.error))
            ask = self.ask(**given)
            self.answer(ask, 10, "waiting", sent=0, valid_ms=9900)
            ask.tick(5000)
            self.assertRegex(str(ask.error), f"give a longer {longer}, or a smaller priority=")

    def test_a_raise_is_repeated_until_it_counts(self) -> None:
        ask = self.ask()
        ask.priority, ask.raise_due = 5, True
        self.assertEqual(self.sent(ask, 10), {"op": "raise", "id": "1", "session": "s", "sent": 10, "priority": 5})
        self.assertIsNone(self.sent(ask, 11))
        ask.hear({"outcome": "waiting", "priority": 100, "sent": 0, "valid_ms": 9900}, 12)  # said before
        self.assertEqual(self.sent(ask, 13)["op"], "raise")
        ask.hear({"outcome": "waiting", "priority": 5, "sent": 13, "valid_ms": 9900}, 14)
        self.assertIsNone(self.sent(ask, 15))

    def test_a_release_is_repeated_until_the_lease_is_over(self) -> None:
        ask = self.held()
        with mock.patch("padme._ask.clock", return_value=20):
            ask.leave(None)
        self.assertEqual([t for t in range(20, 10_020, 10) if self.sent(ask, t)], [20, 520, 1520, 3520, 7520])
        self.assertIn(10_020, ask.next(True))
        ask.tick(10_019)
        self.assertIs(ask.phase, Phase.LEAVING)
        self.answer(ask, 10_019, "granted", fence="7", sent=0, valid_ms=3000)  # crossed on its way
        self.assertIs(ask.phase, Phase.LEAVING)
        ask.tick(10_020)
        self.assertIs(ask.phase, Phase.OVER)


if __name__ == "__main__":
    unittest.main()
