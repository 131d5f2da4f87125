package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register/local"
)

// A client asks what holds for a lock, and is told so also after a change.
func TestShowTellsTheSettings(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		c := s.client("esp32", "crane")
		defer c.close()
		a := c.ask(jsonlock.Show, "", "", jsonlock.Shown)
		if a.Op != jsonlock.Show || a.Models != "level-forward-forward-forward" || len(a.Resources) != 0 || !a.Open || a.TTLMS != 3000 {
			t.Errorf("by default: %+v", a)
		}
		crane := mustTopic(t, n.server, "crane")
		if err := crane.Configure(context.Background(), qosmutex.WithResources("hook", "magnet"), qosmutex.WithModels(qosmutex.Models{Priority: qosmutex.Fair})); err != nil {
			t.Fatal(err)
		}
		a = c.ask(jsonlock.Show, "again", "", jsonlock.Shown)
		if a.Models != "fair-forward-forward-forward" || !slices.Equal(a.Resources, []string{"hook", "magnet"}) || a.Open || a.ID != "again" {
			t.Errorf("configured: %+v", a)
		}
		many := make([]string, 500)
		for i := range many {
			many[i] = fmt.Sprint("resource-", i)
		}
		if err := crane.Configure(context.Background(), qosmutex.WithResources(many...)); err != nil {
			t.Fatal(err)
		}
		if a = c.ask(jsonlock.Show, "many", "", jsonlock.Denied); a.Reason != jsonlock.TooLarge || !strings.Contains(a.Detail, "lock/crane/view") {
			t.Errorf("more than an answer has room for: %+v", a)
		}
	})
}

// Who waits for a resource that is declared no more is denied, and who holds it goes on.
func TestClientsOfWhatIsNotDeclaredAnyMore(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory(), qosmutex.WithResources("hook", "magnet"))
		defer n.die()
		c, d := s.client("esp32", "crane"), s.client("plc", "crane")
		defer c.close()
		defer d.close()
		first := fenceOf(t, c.ask(jsonlock.Acquire, "1", `"resource":"hook"`, jsonlock.Granted))
		d.ask(jsonlock.Acquire, "1", `"resource":"hook"`, jsonlock.Waiting)
		if err := mustTopic(t, n.server, "crane").Configure(context.Background(), qosmutex.WithResources("magnet")); err != nil {
			t.Fatal(err)
		}
		if a := d.await("1", jsonlock.Denied); a.Reason != jsonlock.Undeclared {
			t.Errorf("who waits: %+v", a)
		}
		for range 10 {
			time.Sleep(time.Second)
			if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted); fenceOf(t, a) != first {
				t.Errorf("who holds: %+v", a)
			}
		}
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		if a := c.ask(jsonlock.Acquire, "2", "", jsonlock.Denied); a.Reason != jsonlock.Undeclared || !strings.Contains(a.Detail, "magnet") || strings.Contains(a.Detail, "qosmutex") {
			t.Errorf("the default resource: %+v", a)
		}
	})
}

// A client that locks a name which nobody declared is warned, and one that takes the lock's
// own name is refused.
func TestClientsAreWarnedOfNamesThatNobodyDeclared(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		c := s.client("esp32", "crane")
		defer c.close()
		if a := c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted); a.Warning != "" {
			t.Errorf("the default resource: %+v", a)
		}
		if a := c.ask(jsonlock.Acquire, "2", `"resource":"hook"`, jsonlock.Granted); !strings.Contains(a.Warning, `"hook" is one of its own, beside "default"`) {
			t.Errorf("another name: %+v", a)
		}
		if a := c.ask(jsonlock.Renew, "2", "", jsonlock.Granted); a.Warning != "" {
			t.Errorf("a renewal: %+v", a)
		}
		if a := c.ask(jsonlock.Acquire, "3", `"resource":"crane"`, jsonlock.Denied); a.Reason != jsonlock.Undeclared || !strings.Contains(a.Detail, `"default"`) || a.Warning != "" {
			t.Errorf("the lock's own name: %+v", a)
		}
	})
}

// The first acquire of a lock is answered before it is open, when nobody knows yet what it
// declares: the warning comes with the grant, once.
func TestTheFirstClientOfALockIsWarned(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		warm, c := s.client("plc", "press"), s.client("esp32", "crane")
		defer warm.close()
		defer c.close()
		warm.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		c.send(jsonlock.Acquire, "1", `"resource":"hook"`)
		if a := c.await("1", jsonlock.Granted); !strings.Contains(a.Warning, `"hook" is one of its own`) {
			t.Errorf("the first: %+v", a)
		}
		c.send(jsonlock.Acquire, "2", `"resource":"hook"`)
		if a := c.await("2", jsonlock.Waiting); a.Warning == "" {
			t.Errorf("one that waits: %+v", a)
		}
		c.send(jsonlock.Release, "1", "")
		if a := c.await("2", jsonlock.Granted); a.Warning != "" {
			t.Errorf("it was warned already: %+v", a)
		}
	})
}

// Deadlines are promised or refused as to a member.
func TestClientsHaveDeadlines(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory(), qosmutex.WithModels(qosmutex.Models{Priority: qosmutex.Deadline}), qosmutex.WithResources("hook"))
		defer n.die()
		c, d := s.client("esp32", "crane"), s.client("plc", "crane")
		defer c.close()
		defer d.close()
		c.ask(jsonlock.Acquire, "1", `"resource":"hook","hold_ms":5000`, jsonlock.Granted)
		if a := d.ask(jsonlock.Acquire, "1", `"resource":"hook","within_ms":2000,"hold_ms":1000`, jsonlock.Denied); a.Reason != jsonlock.Unattainable {
			t.Errorf("sooner than who is inside said: %+v", a)
		}
		if a := d.ask(jsonlock.Acquire, "2", `"resource":"*","within_ms":2000`, jsonlock.Denied); a.Reason != jsonlock.Unsupported {
			t.Errorf("any by a deadline: %+v", a)
		}
		d.ask(jsonlock.Acquire, "3", `"resource":"hook","within_ms":9000,"hold_ms":1000`, jsonlock.Waiting)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		d.await("3", jsonlock.Granted)
		if err := mustTopic(t, n.server, "crane").Configure(context.Background(), qosmutex.WithModels(qosmutex.Models{})); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.ask(jsonlock.Acquire, "2", `"resource":"hook","within_ms":1500,"wait_ms":60000`, jsonlock.Waiting)
		if a := c.await("2", jsonlock.Denied); a.Reason != jsonlock.Missed || time.Since(began) > 3*time.Second {
			t.Errorf("what nobody promises: %+v after %v", a, time.Since(began))
		}
		if a := c.ask(jsonlock.Acquire, "4", `"within_ms":0`, jsonlock.Denied); a.Reason != jsonlock.BadWait {
			t.Errorf("no time: %+v", a)
		}
	})
}

// What a gateway chooses for the locks that it creates is a default, which gives way, and
// does not keep gateways from agreeing among themselves.
func TestGatewaysDefaultsGiveWay(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		p := s.join("member", s.broker.Dial)
		defer p.Close(context.Background())
		crane, err := qosmutex.Open(context.Background(), p, "crane", qosmutex.WithResources("default", "hook"), qosmutex.WithClock(s.clock))
		if err != nil {
			t.Fatal(err)
		}
		if v := crane.View(); v.Open || v.ResourcesBy != "member" || v.Root != "gw" {
			t.Errorf("View = %+v", v)
		}
		_ = crane.Close(context.Background())
	})
}

// Whoever asks about a lock before it is open is answered once it is.
func TestShowWaitsUntilTheLockIsOpen(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		first, c := s.client("plc", "press"), s.client("esp32", "crane")
		defer first.close()
		defer c.close()
		first.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		for range 3 {
			c.send(jsonlock.Show, "7", "")
		}
		if a := c.await("7", jsonlock.Shown); a.TTLMS != 3000 || a.Op != jsonlock.Show {
			t.Errorf("%+v", a)
		}
		c.ask(jsonlock.Show, "8", "", jsonlock.Shown)
		select {
		case a := <-c.answers:
			t.Errorf("what was said again is answered again: %+v", a)
		default:
		}
	})
}
