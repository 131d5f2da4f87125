package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

func TestHoldIsGrantedRenewedAndReleased(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Acquire, "1", `"resource":"hook","lease_ms":60000`, jsonlock.Granted)
		first := fenceOf(t, a)
		if a.Resource != "hook" || a.Gateway != "gw" || a.Session != "s1" || *a.Priority != jsonlock.DefaultPriority {
			t.Errorf("answer %+v", a)
		}
		c.await("1", jsonlock.Granted) // it is confirmed
		for range 20 {
			time.Sleep(time.Second)
			a = c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
			if fenceOf(t, a) != first || a.Op != jsonlock.Renew {
				t.Errorf("answer %+v", a)
			}
			if ttl := qosmutex.LAN().TTL; *a.ValidMS <= 0 || *a.ValidMS > ttl.Milliseconds() {
				t.Errorf("valid for %d ms, with a TTL of %v", *a.ValidMS, ttl)
			}
		}
		if _, err := crane.TryLock(context.Background(), "hook"); err == nil {
			t.Error("a node is let in beside the client")
		}
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		h := s.lock(crane, "hook")
		if h.Fence() <= first {
			t.Errorf("after the release: fence %d after %d", h.Fence(), first)
		}
		_ = h.Unlock()
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
		a := c.ask(jsonlock.Acquire, "1", `"lease_ms":8000`, jsonlock.Waiting)
		if until(t, a)-time.Since(s.start).Milliseconds() > 8000 {
			t.Errorf("a waiting request is valid for longer than its lease: %+v", a)
		}
		time.Sleep(5 * time.Second)
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		a = c.await("1", jsonlock.Granted)
		left := until(t, a) - time.Since(s.start).Milliseconds()
		if left <= 0 || left > 3000 {
			t.Errorf("%d ms are left, want what is left of a lease of 8 s after 5 s: %+v", left, a)
		}
		a = c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
		if again := until(t, a) - time.Since(s.start).Milliseconds(); again <= left && again < 2500 {
			t.Errorf("renewed, %d ms are left, not more than %d", again, left)
		}
	})
}

// A hold that the root has confirmed lasts longer than the client was told first. It hears of
// that without asking, as a slow device could not ask in time.
func TestAConfirmedHoldIsToldOf(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		b := c.await("1", jsonlock.Granted)
		if now := time.Since(s.start).Milliseconds(); b.Op != "" || b.Fence != a.Fence || *b.ValidMS < *a.ValidMS+500 || now >= until(t, a) {
			t.Errorf("at %d %+v after %+v", now, b, a)
		}

		d := s.client("gone", "crane")
		defer d.close()
		d.ask(jsonlock.Acquire, "1", `"resource":"hook","lease_ms":600000`, jsonlock.Granted)
		d.raw(`{"op":"gone","session":"s1"}`)
		time.Sleep(time.Second)
		if n := len(d.answers); n != 0 {
			t.Errorf("who is gone is told %d times of more", n)
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
		low.ask(jsonlock.Acquire, "1", `"priority":300,"lease_ms":60000`, jsonlock.Waiting)
		middle.ask(jsonlock.Acquire, "1", `"priority":200,"lease_ms":60000`, jsonlock.Waiting)
		high.ask(jsonlock.Acquire, "1", `"priority":400,"lease_ms":60000`, jsonlock.Waiting)
		time.Sleep(100 * time.Millisecond)
		for c, want := range map[*foreign]int{middle: 1, low: 2, high: 3} {
			if a := c.ask(jsonlock.Query, "1", "", jsonlock.Waiting); a.Position != want {
				t.Errorf("%s stands at %d, want %d", c.p.ID(), a.Position, want)
			}
		}
		if a := high.ask(jsonlock.Raise, "1", `"priority":500`, jsonlock.Denied); a.Reason != jsonlock.BadPriority {
			t.Errorf("made less important: %+v", a)
		}
		high.ask(jsonlock.Raise, "1", `"priority":1`, jsonlock.Waiting)
		time.Sleep(2 * time.Second)
		if a := high.ask(jsonlock.Query, "1", "", jsonlock.Waiting); a.Position != 1 || *a.Priority != 1 {
			t.Errorf("raised: %+v", a)
		}
		want := []qosmutex.Waiter{
			{Participant: "high", Via: "gw", Priority: 1}, {Participant: "middle", Via: "gw", Priority: 200}, {Participant: "low", Via: "gw", Priority: 300},
		}
		same := func(a, b qosmutex.Waiter) bool {
			return a.Participant == b.Participant && a.Via == b.Via && a.Priority == b.Priority
		}
		if q, err := crane.Queue(context.Background(), "default"); err != nil || !slices.EqualFunc(q, want, same) {
			t.Errorf("queue %v %v, want %v: the old request of the one that was raised is withdrawn", q, err, want)
		}
		_ = h.Unlock()
		last := h.Fence()
		for _, c := range []*foreign{high, middle, low} {
			a := c.await("1", jsonlock.Granted)
			if f := fenceOf(t, a); f <= last {
				t.Errorf("%s: fence %d after %d", c.p.ID(), f, last)
			} else {
				last = f
			}
			c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		}
	})
}

// A client finds its own place among members and other clients of its priority, also one
// whose name is longer than states show it.
func TestPositionsAmongOthers(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		long := strings.Repeat("ü", 40)
		first, second := s.client(long, "crane"), s.client("esp32", "crane")
		defer first.close()
		defer second.close()
		h := s.lock(crane, "default")
		ctx, giveUp := context.WithCancel(context.Background())
		var members sync.WaitGroup
		defer members.Wait()
		defer giveUp()
		wait := func() {
			members.Go(func() { _, _ = crane.Lock(ctx, "default", qosmutex.WithPriority(100)) })
			time.Sleep(time.Second)
		}
		wait()
		first.ask(jsonlock.Acquire, "1", `"priority":100,"lease_ms":60000`, jsonlock.Waiting)
		time.Sleep(time.Second)
		wait()
		second.ask(jsonlock.Acquire, "1", `"priority":100,"lease_ms":60000`, jsonlock.Waiting)
		time.Sleep(time.Second)
		wait()
		first.ask(jsonlock.Acquire, "2", `"priority":100,"lease_ms":60000`, jsonlock.Waiting)
		time.Sleep(time.Second)
		q, err := crane.Queue(context.Background(), "default")
		if err != nil || len(q) != 6 {
			t.Fatalf("queue %v %v", q, err)
		}
		shown := strings.Repeat("ü", 30) + "…"
		after := func(from int, name string) int { // its place in the queue, beyond that
			return from + 1 + slices.IndexFunc(q[from:], func(w qosmutex.Waiter) bool { return w.Participant == name && w.Via == "gw" })
		}
		for _, p := range []struct {
			c    *foreign
			id   string
			want int
		}{{first, "1", after(0, shown)}, {second, "1", after(0, "esp32")}, {first, "2", after(after(0, shown), shown)}} {
			if a := p.c.ask(jsonlock.Query, p.id, "", jsonlock.Waiting); a.Position != p.want {
				t.Errorf("%s stands at %d with %s, want %d: %v", p.c.p.ID(), a.Position, p.id, p.want, q)
			}
		}
		_ = h.Unlock()
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
			defer h.Unlock()
		}
		denied := func(id, more string, want jsonlock.Reason) {
			t.Helper()
			a := c.ask(jsonlock.Acquire, id, more, jsonlock.Denied)
			if a.Reason != want || a.Detail == "" && want != jsonlock.WaitOver {
				t.Errorf("%s: %+v, want reason %s and words", more, a, want)
			}
			for _, word := range []string{"qosmutex", "Lock", "With", "Any"} {
				if strings.Contains(a.Detail, word) {
					t.Errorf("%s is told in the words of Go: %s", more, a.Detail)
				}
			}
			if n := g.counted("qosmutex_gateway_refused_total", string(want)); n < 1 {
				t.Errorf("%s is counted %v times", want, n)
			}
		}
		denied("1", `"resource":"a","wait_ms":0`, jsonlock.Busy)
		denied("2", `"resource":"a","wait_ms":700`, jsonlock.WaitOver)
		denied("3", `"resource":"c"`, jsonlock.Undeclared)
		denied("4", `"resource":"client"`, jsonlock.BadResource)
		denied("5", `"resource":"a\u0000"`, jsonlock.BadResource)
		denied("6", `"resource":"a","lease_ms":1`, jsonlock.BadLease)
		denied("7", `"resource":"a","wait_ms":-1`, jsonlock.BadWait)
		denied("8", `"resource":"a","lease_ms":1e99`, jsonlock.Malformed)
		slash := s.client("lost", "crane/a")
		defer slash.close()
		if a := slash.ask(jsonlock.Acquire, "1", "", jsonlock.Denied); a.Reason != jsonlock.BadResource || !strings.Contains(a.Detail, `resource "a" of the lock "crane"`) {
			t.Errorf("a slash: %+v", a)
		}
		time.Sleep(100 * time.Millisecond) // the root publishes its queue every 20 ms
		if q, err := crane.Queue(context.Background(), "a"); err != nil || len(q) != 0 {
			t.Errorf("left behind: %v %v", q, err)
		}
	})
}

// A request for a reserved name is final at once, also while the lock is not open yet.
func TestAReservedNameDoesNotWait(t *testing.T) {
	onSite(t, func(s *site) {
		defer s.gateway("gw").stop()
		c := s.client("esp32", "crane")
		defer c.close()
		for first := (jsonlock.Answer{}); first.ID == ""; { // a gateway that starts may not hear it yet
			c.send(jsonlock.Acquire, "1", `"resource":"client"`)
			select {
			case first = <-c.answers:
				if first.Outcome != jsonlock.Denied || first.Reason != jsonlock.BadResource {
					t.Errorf("the first answer is %+v", first)
				}
			case <-time.After(time.Second):
			}
		}
	})
}

// Where deadlines are promised, a request of any resource cannot have one. Go's clients are
// told so in Go's words, and others in those of JSON.
func TestAnyInTimeIsRefusedNamingBoth(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithResources("a", "b"), qosmutex.WithModels(qosmutex.Models{Priority: qosmutex.Deadline}))
		defer end()
		defer s.gateway("gw").stop()
		soon := qosmutex.WithDeadline(time.Now().Add(time.Second))
		_, err := crane.Lock(context.Background(), qosmutex.Any, soon, qosmutex.WithHold(time.Millisecond))
		if !errors.Is(err, qosmutex.ErrUnsupported) || !strings.Contains(err.Error(), "Any with WithDeadline") {
			t.Errorf("Lock = %v", err)
		}
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Acquire, "1", `"resource":"*","within_ms":1000,"hold_ms":1`, jsonlock.Denied)
		if a.Reason != jsonlock.Unsupported || !strings.Contains(a.Detail, `within_ms with resource "*"`) {
			t.Errorf("%+v", a)
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
		defer h.Unlock()
		if a := c.ask(jsonlock.Acquire, "1", `"resource":"*"`, jsonlock.Granted); a.Resource != "b" {
			t.Errorf("granted %q, want b", a.Resource)
		}
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
	})
}

func TestLeaseThatIsNotRenewedEnds(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		a := c.ask(jsonlock.Acquire, "1", `"lease_ms":2000`, jsonlock.Granted)
		d.send(jsonlock.Acquire, "1", `"lease_ms":60000`)
		d.await("1", jsonlock.Waiting)
		b := d.await("1", jsonlock.Granted)
		if now := time.Since(s.start).Milliseconds(); now < until(t, a) || now > until(t, a)+200 {
			t.Errorf("let in at %d, while the first may believe until %d", now, until(t, a))
		}
		if fenceOf(t, b) <= fenceOf(t, a) {
			t.Errorf("fence %s after %s", b.Fence, a.Fence)
		}
		c.await("1", jsonlock.Expired)
		if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Expired); a.ValidMS != nil {
			t.Errorf("what is over is still valid: %+v", a)
		}
		// Nor is a waiting client remembered for longer than it says that it lives.
		c.ask(jsonlock.Acquire, "2", `"lease_ms":1000`, jsonlock.Waiting)
		c.await("2", jsonlock.Expired)
	})
}
