package gateway

import (
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/tests/cable"
)

// publishRetained is what a broker does with a will that is retained.
func (c *foreign) publishRetained(payload string) {
	c.site.Helper()
	if err := c.p.PublishRaw(pubsub.Main, []string{"lock", c.topic, "client", c.p.ID(), "request"}, []byte(payload), true); err != nil {
		c.site.Fatal(err)
	}
}

// The broker's word that a client has ended frees what it waits for at once, and what
// it holds as soon as it cannot believe in it any more: it may only be cut off.
func TestWillEndsTheSession(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		c.ask(jsonlock.Acquire, "2", `"resource":"hook","lease_ms":600000`, jsonlock.Granted)
		d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Waiting)
		c.ask(jsonlock.Acquire, "3", `"lease_ms":600000,"priority":1`, jsonlock.Waiting)
		c.raw(`{"op":"gone","session":"an earlier one"}`)
		time.Sleep(10 * time.Second)
		a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
		c.publishRetained(`{"op":"gone","session":"s1"}`)
		if a := c.await("3", jsonlock.Lost); a.Reason != jsonlock.GoneAway {
			t.Errorf("waiting: %+v", a)
		}
		s.letsIn(d, "1", a, 500*time.Millisecond)
		if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Lost); a.Reason != jsonlock.GoneAway {
			t.Errorf("renewed after the will: %+v", a)
		}
	})
}

// A broker publishes the will of a client that has only lost its connection. The client goes
// on if it comes back in time; what an operator ended does not.
func TestHoldLivesOnIfItsClientComesBack(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		first := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Waiting)
		c.raw(`{"op":"gone","session":"s1"}`)
		time.Sleep(time.Second)
		for range 10 {
			if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted); a.Fence != first.Fence {
				t.Fatalf("fence %s after %s", a.Fence, first.Fence)
			}
			time.Sleep(time.Second)
		}
		c.raw(`{"op":"gone","session":"s1","id":"1"}`)
		a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
		d.await("1", jsonlock.Granted)
		if now := time.Since(s.start).Milliseconds(); now < until(t, a) {
			t.Errorf("let in at %d, while the first may believe until %d", now, until(t, a))
		}
		if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Lost); a.Reason != jsonlock.GoneAway {
			t.Errorf("after it was ended by its id: %+v", a)
		}
	})
}

// A connection has one will. On the gateways' own lock topic it counts for all of them.
func TestOneWillEndsTheSessionInAllTopics(t *testing.T) {
	for name, opts := range map[string][]Option{"all": nil, "one": {WithTopics("crane")}} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				g := s.gateway("gw", opts...)
				defer g.stop()
				crane, lift := s.client("esp32", "crane"), s.client("other", "lift")
				defer crane.close()
				defer lift.close()
				topics := []*foreign{crane}
				if opts == nil {
					topics = append(topics, lift)
				}
				for _, c := range topics {
					c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
				}
				for _, c := range topics {
					c.will(`{"op":"release","session":"an earlier one"}`)
					c.will(`{"op":"release","id":"1","session":"s1"}`) // all or nothing
					time.Sleep(100 * time.Millisecond)
					c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
					c.will(`{"op":"release","session":"s1"}`)
					c.await("1", jsonlock.Released)
				}
			})
		})
	}
}

// will publishes on the gateways' own lock topic.
func (c *foreign) will(payload string) {
	c.site.Helper()
	if err := c.p.PublishRaw(pubsub.Main, []string{"lock", RoleTopic, "client", c.p.ID(), "request"}, []byte(payload), false); err != nil {
		c.site.Fatal(err)
	}
}

// A client may choose that its will is believed.
func TestWillThatReleasesFreesAtOnce(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Waiting)
		died := time.Now()
		c.raw(`{"op":"release","session":"s1"}`)
		d.await("1", jsonlock.Granted)
		if took := time.Since(died); took > 100*time.Millisecond {
			t.Errorf("freed after %v", took)
		}
	})
}

// A retained request is from who knows when: the broker gives it to every gateway
// that starts.
func TestRetainedRequestsAreNotServed(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		c := s.client("esp32", "crane")
		defer c.close()
		g := s.gateway("gw")
		defer g.stop()
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		c.publishRetained(`{"op":"acquire","id":"old","session":"s1"}`)
		c.await("old", jsonlock.Waiting) // published just now
		c.ask(jsonlock.Release, "old", "", jsonlock.Released)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		c.publishRetained(`{"op":"acquire","id":"older","session":"s1"}`)
		c.ask(jsonlock.Release, "older", "", jsonlock.Released)
		g.cable.Break()
		time.Sleep(5 * time.Second)
		if n := g.counted("qosmutex_gateway_refused_total", string(jsonlock.Stale)); n != 1 {
			t.Errorf("%v retained requests were refused, want 1", n)
		}
		_ = s.lock(crane, "default").Unlock()
	})
}

// The gateway's own session ends: its computer slept. It says nothing by itself, as another one
// may serve the request by now; the client is told when it asks.
func TestLossIsToldWhoAsks(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		woke := time.Now()
		g.asleep.Add(int64(time.Minute))
		if x := c.ask(jsonlock.Renew, "1", "", jsonlock.Lost); x.Reason != jsonlock.Unknown {
			t.Errorf("%+v", x)
		}
		if took := time.Since(woke); took > 3*qosmutex.LAN().TTL {
			t.Errorf("told after %v", took)
		}
		h := s.lock(crane, "default")
		if h.Fence() <= fenceOf(t, a) {
			t.Errorf("fence %d after %s", h.Fence(), a.Fence)
		}
		_ = h.Unlock()
		b := c.ask(jsonlock.Acquire, "2", "", jsonlock.Granted) // the gateway is back
		if fenceOf(t, b) <= h.Fence() {
			t.Errorf("fence %s after %d", b.Fence, h.Fence())
		}
	})
}

// The root of the lock topic dies, and with it the gateway's session there. The
// gateway has its role still, says that the hold is lost, and creates the topic again.
func TestLossOfTheRootIsTold(t *testing.T) {
	onSite(t, func(s *site) {
		cable := cable.New(s.broker.Dial)
		_, end := s.createBy("crane", cable.Dial, qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		cable.Cut()
		died := time.Now()
		if x := c.await("1", jsonlock.Lost); x.Reason != "" {
			t.Errorf("%+v", x)
		}
		if took := time.Since(died); took > qosmutex.LAN().TTL+time.Second {
			t.Errorf("told after %v", took)
		}
		if b := c.ask(jsonlock.Acquire, "2", "", jsonlock.Granted); fenceOf(t, b) <= fenceOf(t, a) {
			t.Errorf("fence %s after %s", b.Fence, a.Fence)
		}
	})
}

// Requests that a broker has kept are of clients that wait no more: a gateway that starts opens
// no locks for them.
func TestRetainedRequestsOpenNoLocks(t *testing.T) {
	onSite(t, func(s *site) {
		c := s.client("esp32", "crane")
		defer c.close()
		c.publishRetained(`{"op":"acquire","id":"old","session":"s1"}`)
		g := s.gateway("gw")
		defer g.stop()
		time.Sleep(5 * time.Second)
		if n := g.counted("qosmutex_gateway_refused_total", string(jsonlock.Stale)); n == 0 { // it may come more than once
			t.Error("the retained request was not refused")
		}
		if n := len(c.answers); n != 0 {
			t.Errorf("%d answers to a request that was retained", n)
		}
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
	})
}

// letsIn waits until d is let in after the holder that was told a, and checks that it is not
// before that one has to stop, and at most so much later.
func (s *site) letsIn(d *foreign, id string, a jsonlock.Answer, late time.Duration) {
	s.Helper()
	b := d.await(id, jsonlock.Granted)
	now := time.Since(s.start).Milliseconds()
	if now < until(s, a) {
		s.Errorf("let in at %d, while the first may believe until %d", now, until(s, a))
	}
	if after := now - until(s, a); after > late.Milliseconds() {
		s.Errorf("let in only %d ms after the first had to stop", after)
	}
	if fenceOf(s, b) <= fenceOf(s, a) {
		s.Errorf("fence %s after %s", b.Fence, a.Fence)
	}
}

// A client that renews stops when its hold is not valid any more, so others need not wait for
// its lease, and not a moment less: neither after the first answer nor after renewals, nor if
// an operator looks on.
func TestWhoRenewsHoldsOnlyWhileItBelieves(t *testing.T) {
	for name, renewals := range map[string]int{"never": 0, "some times": 7} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				g := s.gateway("gw")
				defer g.stop()
				c, d := s.client("esp32", "crane"), s.client("other", "crane")
				defer c.close()
				defer d.close()
				a := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000,"renews":true`, jsonlock.Granted)
				d.ask(jsonlock.Acquire, "1", `"lease_ms":600000,"renews":true`, jsonlock.Waiting)
				for range renewals {
					time.Sleep(time.Second)
					a = c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
				}
				for more := time.NewTimer(time.Second); ; { // it may have been told since
					select {
					case x := <-c.answers:
						a = x
						continue
					case <-more.C:
					}
					break
				}
				before := until(t, a)
				a = c.ask(jsonlock.Query, "1", "", jsonlock.Granted)
				if until(t, a) > before+100 { // less time passes, so clocks may drift less
					t.Errorf("a query has extended it from %d to %d", before, until(t, a))
				}
				s.letsIn(d, "1", a, 200*time.Millisecond)
				c.ask(jsonlock.Renew, "1", "", jsonlock.Expired)
			})
		})
	}
}
