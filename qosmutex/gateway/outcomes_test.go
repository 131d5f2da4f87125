package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"padme/qosmutex"
)

func TestHoldIsGrantedRenewedAndReleased(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(Acquire, "1", `"resource":"hook","lease_ms":60000`, Granted)
		first := fenceOf(t, a)
		if a.Resource != "hook" || a.Gateway != "gw" || a.Session != "s1" || *a.Priority != defaultPriority {
			t.Errorf("answer %+v", a)
		}
		for range 20 {
			time.Sleep(time.Second)
			a = c.ask(Renew, "1", "", Granted)
			if fenceOf(t, a) != first || a.Op != Renew {
				t.Errorf("answer %+v", a)
			}
			if ttl := time.Duration(qosmutex.LAN().TTL); *a.ValidMS <= 0 || *a.ValidMS > ttl.Milliseconds() {
				t.Errorf("valid for %d ms, with a TTL of %v", *a.ValidMS, ttl)
			}
		}
		if _, err := crane.TryLock(context.Background(), "hook"); err == nil {
			t.Error("a node is let in beside the client")
		}
		c.ask(Release, "1", "", Released)
		h := s.lock(crane, "hook")
		if h.Fence() <= first {
			t.Errorf("after the release: fence %d after %d", h.Fence(), first)
		}
		_ = h.Unlock(context.Background())
	})
}

// A grant that comes late counts from the request that last renewed, and the client
// has stopped believing before the gateway's hold can end.
func TestValidityCountsFromTheRequestThatItNames(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		h, err := crane.Lock(context.Background(), "default")
		if err != nil {
			t.Fatal(err)
		}
		a := c.ask(Acquire, "1", `"lease_ms":8000`, Waiting)
		if until(t, a)-time.Since(s.start).Milliseconds() > 8000 {
			t.Errorf("a waiting request is valid for longer than its lease: %+v", a)
		}
		time.Sleep(5 * time.Second)
		if err := h.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		a = c.await("1", Granted)
		left := until(t, a) - time.Since(s.start).Milliseconds()
		if left <= 0 || left > 3000 {
			t.Errorf("%d ms are left, want what is left of a lease of 8 s after 5 s: %+v", left, a)
		}
		a = c.ask(Renew, "1", "", Granted)
		if again := until(t, a) - time.Since(s.start).Milliseconds(); again <= left && again < 2500 {
			t.Errorf("renewed, %d ms are left, not more than %d", again, left)
		}
	})
}

func TestPrioritiesAndPositions(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		low, middle, high := s.client("low", "crane"), s.client("middle", "crane"), s.client("high", "crane")
		defer low.close()
		defer middle.close()
		defer high.close()
		h, err := crane.Lock(context.Background(), "default")
		if err != nil {
			t.Fatal(err)
		}
		low.ask(Acquire, "1", `"priority":300,"lease_ms":60000`, Waiting)
		middle.ask(Acquire, "1", `"priority":200,"lease_ms":60000`, Waiting)
		high.ask(Acquire, "1", `"priority":400,"lease_ms":60000`, Waiting)
		time.Sleep(100 * time.Millisecond)
		for c, want := range map[*foreign]int{middle: 1, low: 2, high: 3} {
			if a := c.ask(Query, "1", "", Waiting); a.Position != want {
				t.Errorf("%s stands at %d, want %d", c.p.ID(), a.Position, want)
			}
		}
		if a := high.ask(Raise, "1", `"priority":500`, Denied); a.Reason != BadPriority {
			t.Errorf("made less important: %+v", a)
		}
		high.ask(Raise, "1", `"priority":1`, Waiting)
		time.Sleep(2 * time.Second)
		if a := high.ask(Query, "1", "", Waiting); a.Position != 1 || *a.Priority != 1 {
			t.Errorf("raised: %+v", a)
		}
		if q, err := crane.Queue(context.Background(), "default"); err != nil || len(q) != 3 {
			t.Errorf("queue %v %v, want three: the old request of the one that was raised is withdrawn", q, err)
		}
		_ = h.Unlock(context.Background())
		last := h.Fence()
		for _, c := range []*foreign{high, middle, low} {
			a := c.await("1", Granted)
			if f := fenceOf(t, a); f <= last {
				t.Errorf("%s: fence %d after %d", c.p.ID(), f, last)
			} else {
				last = f
			}
			c.ask(Release, "1", "", Released)
		}
	})
}

func TestWhatIsNotToBeHadIsDenied(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithResources("a", "b"))
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		for _, r := range []string{"a", "b"} {
			h, err := crane.Lock(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Unlock(context.Background())
		}
		denied := func(id, more string, want Reason) {
			t.Helper()
			if a := c.ask(Acquire, id, more, Denied); a.Reason != want || a.Detail == "" && want != WaitOver {
				t.Errorf("%s: %+v, want reason %s and words", more, a, want)
			}
			if n := g.counted("qosmutex_gateway_refused_total", string(want)); n < 1 {
				t.Errorf("%s is counted %v times", want, n)
			}
		}
		denied("1", `"resource":"a","wait_ms":0`, Busy)
		denied("2", `"resource":"a","wait_ms":700`, WaitOver)
		denied("3", `"resource":"c"`, Undeclared)
		denied("4", `"resource":"client"`, BadResource)
		denied("5", `"resource":"a\u0000"`, BadResource)
		denied("6", `"resource":"a","lease_ms":1`, BadLease)
		denied("7", `"resource":"a","wait_ms":-1`, BadWait)
		denied("8", `"resource":"a","lease_ms":1e99`, Malformed)
		time.Sleep(100 * time.Millisecond) // the root publishes its queue every 20 ms
		if q, err := crane.Queue(context.Background(), "a"); err != nil || len(q) != 0 {
			t.Errorf("left behind: %v %v", q, err)
		}
	})
}

func TestAnyTakesWhatIsFree(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithResources("a", "b"))
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		h, err := crane.Lock(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Unlock(context.Background())
		if a := c.ask(Acquire, "1", `"resource":"*"`, Granted); a.Resource != "b" {
			t.Errorf("granted %q, want b", a.Resource)
		}
		c.ask(Release, "1", "", Released)
	})
}

func TestLeaseThatIsNotRenewedEnds(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		a := c.ask(Acquire, "1", `"lease_ms":2000`, Granted)
		d.send(Acquire, "1", `"lease_ms":60000`)
		d.await("1", Waiting)
		b := d.await("1", Granted)
		if now := time.Since(s.start).Milliseconds(); now < until(t, a) || now > until(t, a)+200 {
			t.Errorf("let in at %d, while the first may believe until %d", now, until(t, a))
		}
		if fenceOf(t, b) <= fenceOf(t, a) {
			t.Errorf("fence %s after %s", b.Fence, a.Fence)
		}
		c.await("1", Expired)
		if a := c.ask(Renew, "1", "", Expired); a.ValidMS != nil {
			t.Errorf("what is over is still valid: %+v", a)
		}
		// Nor is a waiting client remembered for longer than it says that it lives.
		c.ask(Acquire, "2", `"lease_ms":1000`, Waiting)
		c.await("2", Expired)
	})
}

func TestRepeatedRequestsAreHarmless(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		first := c.ask(Acquire, "1", "", Granted)
		for range 10 {
			if a := c.ask(Acquire, "1", "", Granted); a.Fence != first.Fence {
				t.Errorf("a repeated acquire was granted again: fence %s after %s", a.Fence, first.Fence)
			}
		}
		if st := crane.Status().Resources; len(st) != 1 || st[0].Waiting != 0 {
			t.Errorf("a repeated acquire waits: %+v", st)
		}
		c.ask(Release, "1", "", Released)
		for range 3 {
			c.ask(Release, "1", "", Released)
			c.ask(Acquire, "1", "", Released) // late, or twice
		}
		h := s.lock(crane, "default") // unless a late acquire has taken it again
		_ = h.Unlock(context.Background())
		c.ask(Release, "2", "", Released)
		c.ask(Acquire, "2", "", Released) // overtaken by its release
		if a := c.ask(Renew, "never", "", Lost); a.Reason != Unknown {
			t.Errorf("%+v", a)
		}
	})
}

// Messages that come again late find what they are about.
func TestEndedRequestsAreRemembered(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		for i := range remembered {
			c.ask(Release, fmt.Sprint(i), "", Released)
			time.Sleep(time.Second)
		}
		time.Sleep(forgotten - time.Minute - remembered*time.Second)
		for i := range remembered {
			if a := c.ask(Acquire, fmt.Sprint(i), "", Released); a.Reason != Unknown {
				t.Errorf("%d: %+v", i, a)
			}
		}
		time.Sleep(2 * time.Minute)
		if a := c.ask(Renew, "0", "", Lost); a.Reason != Unknown {
			t.Errorf("after five minutes: %+v", a)
		}
	})
}

// What docs/clients.md promises of ended requests: for how long, and how many.
const (
	forgotten  = 5 * time.Minute
	remembered = 64
)

// A client whose clock runs slow by as much as the gateway's runs fast does not
// believe for longer than its lease.
func TestValidityAllowsForDrift(t *testing.T) {
	const rho = 0.01 // of docs/clients.md
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		for _, a := range []Answer{
			c.ask(Acquire, "1", `"lease_ms":2000`, Granted),
			d.ask(Acquire, "1", `"lease_ms":2000`, Waiting),
		} {
			if slow := float64(*a.ValidMS) / (1 - rho) * (1 + rho); slow > 2000 || slow < 1900 {
				t.Errorf("%s for %d ms, which may last %.0f", a.Outcome, *a.ValidMS, slow)
			}
		}
	})
}
