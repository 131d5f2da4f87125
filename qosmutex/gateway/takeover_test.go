package gateway

import (
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
)

// Two gateways run. One answers; when it ends, the other does, and nobody is let in
// while the first one's client may still believe that it is inside.
func TestAnotherGatewayTakesOver(t *testing.T) {
	for name, end := range map[string]func(g *served){
		"in good order": func(g *served) { g.stop() },
		"cut off":       func(g *served) { g.cable.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				one := s.gateway("gw-1")
				c, d := s.client("esp32", "crane"), s.client("other", "crane")
				defer c.close()
				defer d.close()
				c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
				two := s.gateway("gw-2")
				defer two.stop()
				time.Sleep(20 * time.Second)
				d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Waiting)
				a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
				if a.Gateway != "gw-1" {
					t.Fatalf("%s answers beside the first", a.Gateway)
				}
				for _, o := range []jsonlock.Outcome{jsonlock.Granted, jsonlock.Waiting, jsonlock.Denied, jsonlock.Lost} {
					if n := two.counted("qosmutex_gateway_answers_total", string(o)); n != 0 {
						t.Errorf("the one that stands by has answered %s %v times", o, n)
					}
				}
				end(one)
				b := d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted) // repeated: who stands by had no desk then
				if now := time.Since(s.start).Milliseconds(); now < until(t, a) {
					t.Errorf("let in at %d, while the first may believe until %d", now, until(t, a))
				}
				if b.Gateway != "gw-2" || fenceOf(t, b) <= fenceOf(t, a) {
					t.Errorf("%+v after %+v", b, a)
				}
				x := c.ask(jsonlock.Renew, "1", "", jsonlock.Lost)
				if x.Gateway == "gw-1" && x.Reason == jsonlock.Ended { // its farewell
					x = c.ask(jsonlock.Renew, "1", "", jsonlock.Lost)
				}
				if x.Reason != jsonlock.Unknown || x.Gateway != "gw-2" {
					t.Errorf("the new gateway says %+v", x)
				}
				c.ask(jsonlock.Acquire, "2", "", jsonlock.Waiting)
				d.ask(jsonlock.Release, "1", "", jsonlock.Released)
				x = c.ask(jsonlock.Acquire, "2", "", jsonlock.Granted)
				if fenceOf(t, x) <= fenceOf(t, b) {
					t.Errorf("fence %s after %s", x.Fence, b.Fence)
				}
				if name == "cut off" {
					one.stop()
				}
			})
		})
	}
}

// A gateway that ends tells its clients, and keeps what they hold for as long as they
// may believe in it.
func TestGatewayThatEndsTellsItsClients(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		c := s.client("esp32", "yard")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
		g.stop()
		if x := c.await("1", jsonlock.Lost); x.Reason != jsonlock.Ended {
			t.Errorf("%+v", x)
		}
		if now := time.Since(s.start).Milliseconds(); now < until(t, a) {
			t.Errorf("ended at %d, while its client may believe until %d", now, until(t, a))
		}
	})
}

// A gateway that was held up, and of whose requests another one has taken care since, says
// nothing of them when it goes on: its word would end what the other has granted.
func TestAGatewayThatWasHeldUpIsSilent(t *testing.T) {
	onSite(t, func(s *site) {
		one := s.gateway("gw-1")
		defer one.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Waiting)
		two := s.gateway("gw-2")
		defer two.stop()
		time.Sleep(20 * time.Second)
		one.cable.HoldSent()
		if a := d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted); a.Gateway != "gw-2" {
			t.Fatalf("%s answers, which is cut off", a.Gateway)
		}
		one.cable.Release()
		time.Sleep(20 * time.Second)
		if n := one.counted("qosmutex_gateway_answers_total", string(jsonlock.Lost)); n != 0 {
			t.Errorf("it has said %v times that something is lost", n)
		}
		if a := d.ask(jsonlock.Renew, "1", "", jsonlock.Granted); a.Gateway != "gw-2" {
			t.Errorf("%+v", a)
		}
	})
}
