package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

func TestRepeatedRequestsAreHarmless(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.create("crane", qosmutex.WithOpenResources())
		defer end()
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		first := c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		for range 10 {
			if a := c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted); a.Fence != first.Fence {
				t.Errorf("a repeated acquire was granted again: fence %s after %s", a.Fence, first.Fence)
			}
		}
		if st := crane.Status().Resources; len(st) != 1 || st[0].Waiting != 0 {
			t.Errorf("a repeated acquire waits: %+v", st)
		}
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		for range 3 {
			c.ask(jsonlock.Release, "1", "", jsonlock.Released)
			c.ask(jsonlock.Acquire, "1", "", jsonlock.Released) // late, or twice
		}
		h := s.lock(crane, "default") // unless a late acquire has taken it again
		_ = h.Unlock()
		c.ask(jsonlock.Release, "2", "", jsonlock.Released)
		c.ask(jsonlock.Acquire, "2", "", jsonlock.Released) // overtaken by its release
		if a := c.ask(jsonlock.Renew, "never", "", jsonlock.Lost); a.Reason != jsonlock.Unknown {
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
			c.ask(jsonlock.Release, fmt.Sprint(i), "", jsonlock.Released)
			time.Sleep(time.Second)
		}
		time.Sleep(forgotten - time.Minute - remembered*time.Second)
		for i := range remembered {
			if a := c.ask(jsonlock.Acquire, fmt.Sprint(i), "", jsonlock.Released); a.Reason != jsonlock.Unknown {
				t.Errorf("%d: %+v", i, a)
			}
		}
		time.Sleep(2 * time.Minute)
		if a := c.ask(jsonlock.Renew, "0", "", jsonlock.Lost); a.Reason != jsonlock.Unknown {
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
		for _, a := range []jsonlock.Answer{
			c.ask(jsonlock.Acquire, "1", `"lease_ms":2000`, jsonlock.Granted),
			d.ask(jsonlock.Acquire, "1", `"lease_ms":2000`, jsonlock.Waiting),
		} {
			if slow := float64(*a.ValidMS) / (1 - rho) * (1 + rho); slow > 2000 || slow < 1900 {
				t.Errorf("%s for %d ms, which may last %.0f", a.Outcome, *a.ValidMS, slow)
			}
		}
	})
}

// Just after a gateway has begun, nobody knows whether a lock is free: then it is not said
// to be busy. Who waits is told why.
func TestNotReadyIsNotBusy(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		c := s.client("esp32", "crane")
		defer c.close()
		c.send(jsonlock.Acquire, "1", `"wait_ms":0`)
		time.Sleep(1500 * time.Millisecond)
		c.send(jsonlock.Acquire, "1", `"wait_ms":0`)
		if a := c.await("1", jsonlock.Waiting); a.Reason != jsonlock.NotReady || !strings.Contains(a.Detail, "has just begun") || a.ValidMS == nil {
			t.Errorf("while the root does not know all: %+v", a)
		}
		c.ask(jsonlock.Acquire, "1", `"wait_ms":0`, jsonlock.Granted)
		c.send(jsonlock.Acquire, "2", `"wait_ms":0`)
		if a := c.await("2", jsonlock.Denied); a.Reason != jsonlock.Busy {
			t.Errorf("what is held: %+v", a)
		}
	})
}

// Whoever waits for a lock that is not open yet is told so, and, when it is, that it is in line:
// nobody has it before.
func TestWhoWaitsIsToldThatALockIsOpened(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", nil)
		defer n.die()
		first, second := s.client("esp32", "crane"), s.client("plc", "crane")
		defer first.close()
		defer second.close()
		time.Sleep(10 * time.Second) // it has the roles
		first.send(jsonlock.Acquire, "1", "")
		if a := first.await("1", jsonlock.Waiting); a.Reason != jsonlock.NotReady || a.Detail != "node looks for its root, and becomes that if there is none, which takes up to 5.1s" {
			t.Errorf("%+v", a)
		}
		second.send(jsonlock.Acquire, "1", "")
		second.await("1", jsonlock.Waiting)
		first.await("1", jsonlock.Granted)
		granted := time.Now()
		if a := second.await("1", jsonlock.Waiting); a.Reason != "" || a.Detail != "" || a.Position != 1 {
			t.Errorf("while another one holds the lock: %+v", a)
		}
		if took := time.Since(granted); took > 2*againAfter {
			t.Errorf("it was told %v later", took)
		}
	})
}

// away is a register none of whose voters answers.
type away struct{ *local.Register }

func (away) failure(ctx context.Context) error {
	<-ctx.Done()
	return &register.Unavailable{Missing: []string{"v2", "v3"}, Cause: ctx.Err()}
}

func (r away) Get(ctx context.Context, _ string) (register.Entry, error) {
	return register.Entry{}, r.failure(ctx)
}

// Without a majority of the voters clients are told which are missing: those that wait while
// they do, and the others when they have waited long enough.
func TestWithoutVotersClientsAreTold(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("node", s.broker.Dial)
		defer p.Close(context.Background())
		server, err := qosmutex.NewServer(p, qosmutex.WithRegister(away{local.Memory()}), qosmutex.WithClock(s.clock))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, server) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		c := s.client("esp32", "crane")
		defer c.close()
		for id, fields := range map[string]string{"try": `"wait_ms":0`, "short": `"wait_ms":2000`} {
			begun := time.Now()
			c.send(jsonlock.Acquire, id, fields)
			if a := c.await(id, jsonlock.Waiting); a.Reason != jsonlock.NotReady || !strings.Contains(a.Detail, "start v2, v3") {
				t.Errorf("%s waits: %+v", id, a)
			}
			a := c.ask(jsonlock.Acquire, id, fields, jsonlock.Denied)
			if took := time.Since(begun); a.Reason != jsonlock.NotReady || !strings.Contains(a.Detail, "start v2, v3") || took > server.Settles(0)+2*time.Second {
				t.Errorf("%s, after %v: %+v", id, took, a)
			}
		}
		// Some repeat how long they wait, others what is left of it.
		c.send(jsonlock.Acquire, "left", `"wait_ms":4000`)
		time.Sleep(2500 * time.Millisecond)
		c.send(jsonlock.Acquire, "left", `"wait_ms":1500`)
		time.Sleep(time.Second)
		for len(c.answers) > 0 {
			if a := <-c.answers; a.ID == "left" && a.Outcome != jsonlock.Waiting {
				t.Errorf("before its time is over: %+v", a)
			}
		}
		c.ask(jsonlock.Acquire, "left", `"wait_ms":500`, jsonlock.Denied)
		c.send(jsonlock.Acquire, "long", "")
		c.await("long", jsonlock.Waiting)
		c.ask(jsonlock.Release, "long", "", jsonlock.Released)
	})
}
