package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register/local"
)

// node is what `pubsub-node broker` has beside the broker: it roots topics for members and
// serves clients; without a register it is as `pubsub-node serve`.
type node struct {
	metrics *prometheus.Registry
	p       *pubsub.Participant
	running sync.WaitGroup
	server  *qosmutex.Server
}

func (s *site) node(id string, r *local.Register, opts ...qosmutex.Option) *node {
	s.Helper()
	n := &node{p: s.join(id, s.broker.Dial), metrics: prometheus.NewRegistry()}
	if r != nil {
		opts = append(opts, qosmutex.WithRegister(r), qosmutex.Resume())
	}
	var err error
	n.server, err = qosmutex.NewServer(n.p, append(opts, qosmutex.WithMetrics(n.metrics), qosmutex.WithNodePriority(-1<<63), qosmutex.WithClock(s.clock))...)
	if err != nil {
		s.Fatal(err)
	}
	ready := make(chan struct{})
	n.running.Go(func() { _ = n.server.Run(context.Background()) })
	n.running.Go(func() {
		_ = Serve(context.Background(), n.server, WithMetrics(n.metrics), WithReady(func() { close(ready) }))
	})
	<-ready
	return n
}

// die ends the node as a crash does: nothing is handed over, nobody is told.
func (n *node) die() {
	_ = n.p.Close(context.Background())
	n.running.Wait()
	n.server.Close()
}

// A node that roots a topic answers its clients from it: what they do costs no message
// between participants.
func TestClientsOfTheRootCostNoMessage(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		var between atomic.Int64
		spy := s.join("spy", s.broker.Dial)
		defer spy.Close(context.Background())
		stop, err := spy.SubscribeRaw(context.Background(), pubsub.Main, []string{"node", "node", "+"}, func(pubsub.RawMessage) { between.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		time.Sleep(time.Second)
		const rounds = 50
		before, began := between.Load(), time.Now()
		for i := range rounds {
			id := fmt.Sprint("r", i)
			c.ask(jsonlock.Acquire, id, "", jsonlock.Granted)
			c.ask(jsonlock.Release, id, "", jsonlock.Released)
		}
		if sent := between.Load() - before; sent > rounds/10+int64(time.Since(began)/qosmutex.LAN().Heartbeat) {
			t.Errorf("%d locks cost %d messages", rounds, sent)
		}
		if st := mustTopic(t, n.server, "crane").Status(); st.Root.ID != "node" || st.Members != 1 {
			t.Errorf("%q is the root of %d members", st.Root.ID, st.Members)
		}
	})
}

func mustTopic(t *testing.T, server *qosmutex.Server, name string) *qosmutex.Topic {
	t.Helper()
	topic, err := server.Topic(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// The node dies and is started again at once, at the same place: its clients go on with what
// they hold, and nobody is let in beside them. Whoever does not come back loses its hold with
// the lease.
func TestHoldsOfClientsGoOnAfterARestart(t *testing.T) {
	onSite(t, func(s *site) {
		path := filepath.Join(t.TempDir(), "register")
		var n *node
		var r *local.Register
		start := func() {
			var err error
			if r, err = local.Open(path); err != nil {
				t.Fatal(err)
			}
			n = s.node("node", r)
		}
		restart := func() {
			n.die()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			start()
		}
		start()
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		const long, short = `"lease_ms":600000`, `"lease_ms":20000`
		held := c.ask(jsonlock.Acquire, "1", long, jsonlock.Granted)
		for range 5 {
			d.ask(jsonlock.Acquire, "2", short, jsonlock.Waiting)
			restart()
			for range 2 {
				d.ask(jsonlock.Acquire, "2", short, jsonlock.Waiting)
				if a := c.ask(jsonlock.Renew, "1", "", jsonlock.Granted); a.Fence != held.Fence {
					t.Fatalf("fence %s after the restart, and %s before", a.Fence, held.Fence)
				}
				time.Sleep(10 * time.Second)
			}
		}
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		next := d.ask(jsonlock.Acquire, "2", short, jsonlock.Granted)
		if fenceOf(t, next) <= fenceOf(t, held) {
			t.Errorf("fence %s after %s", next.Fence, held.Fence)
		}
		restart() // and d does not come back
		began := time.Now()
		c.ask(jsonlock.Acquire, "3", long, jsonlock.Granted)
		if now := time.Since(s.start).Milliseconds(); now < until(t, next) || time.Since(began) > 25*time.Second {
			t.Errorf("let in at %d, %v after the restart, while the one before may believe until %d", now, time.Since(began), until(t, next))
		}
		c.ask(jsonlock.Release, "3", "", jsonlock.Released)
		restart() // and nobody holds anything, so it costs nothing
		began = time.Now()
		c.ask(jsonlock.Acquire, "4", long, jsonlock.Granted)
		if took := time.Since(began); took > qosmutex.LAN().TTL/2 {
			t.Errorf("with nothing held, it is had %v after the restart", took)
		}
		n.die()
		_ = r.Close()
	})
}

// A client that stops by itself is not overtaken after a restart: the earlier process may have
// told it until when its hold is valid just before it died. It may be cut off as well.
func TestARestartEndsNothingThatIsBelieved(t *testing.T) {
	for name, will := range map[string]string{"silent": "", "cut off": `{"op":"gone","session":"s1"}`} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				r, err := local.Open(filepath.Join(t.TempDir(), "register"))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				n := s.node("node", r)
				c, d := s.client("esp32", "crane"), s.client("other", "crane")
				defer c.close()
				defer d.close()
				a := c.ask(jsonlock.Acquire, "1", `"lease_ms":600000,"renews":true`, jsonlock.Granted)
				for range 5 {
					time.Sleep(time.Second)
					a = c.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
				}
				n.die()
				n = s.node("node", r)
				began := time.Now()
				if will != "" {
					c.raw(will)
				}
				d.ask(jsonlock.Acquire, "1", `"lease_ms":60000`, jsonlock.Granted)
				if now := time.Since(s.start).Milliseconds(); now < until(t, a) {
					t.Errorf("let in at %d, while the first may believe until %d", now, until(t, a))
				}
				if took := time.Since(began); took > qosmutex.LAN().TTL+time.Second {
					t.Errorf("let in %v after the restart", took)
				}
				n.die()
			})
		})
	}
}

// Clients that come at the same moment are served in the order in which they came, the most
// important first, and everybody is told where it stands.
func TestCrowdIsServedInOrder(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		time.Sleep(10 * time.Second)
		const crowd = 600
		c := s.client("crowd", "crane") // one connection; the topic says which client it is
		defer c.close()
		answers := make(chan jsonlock.Answer, 16*crowd)
		stop, err := c.p.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", "crane", "client", "+", "answer"}, func(m pubsub.RawMessage) {
			if a, err := jsonlock.DecodeAnswer(m.Payload); err == nil {
				answers <- a
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		send := func(client, payload string) {
			if err := c.p.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", client, "request"}, []byte(payload), false); err != nil {
				t.Fatal(err)
			}
		}
		var want []string
		for i := range crowd {
			id, priority := fmt.Sprintf("c%03d", i), 100-i%3
			send(id, fmt.Sprintf(`{"op":"acquire","id":%q,"priority":%d,"lease_ms":60000}`, id, priority))
			if i > 0 {
				want = append(want, id)
			}
		}
		slices.SortStableFunc(want, func(a, b string) int { return priorityOf(a) - priorityOf(b) })
		want = append([]string{"c000"}, want...) // it found the lock free
		var got []string
		for len(got) < crowd {
			select {
			case a := <-answers:
				switch a.Outcome {
				case jsonlock.Granted:
					got = append(got, a.ID)
					send(a.ID, fmt.Sprintf(`{"op":"release","id":%q}`, a.ID))
				case jsonlock.Waiting, jsonlock.Released:
				default:
					t.Fatalf("%+v", a)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%d of %d were served", len(got), crowd)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("served %v\nwant %v", got, want)
		}
	})
}

func priorityOf(id string) int {
	var i int
	_, _ = fmt.Sscanf(id, "c%d", &i)
	return 100 - i%3
}
