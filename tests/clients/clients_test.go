//go:build linux

package clients

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
)

// node is a Go program with the library: this one.
type node struct {
	*site
	p     *pubsub.Participant
	topic *qosmutex.Topic
}

// node has this process take part, without a lock.
func (s *site) node(id string) *node {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := pubsub.Join(ctx, s.url, id)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = p.Close(ctx)
	})
	return &node{site: s, p: p}
}

// join makes this process a member of the lock that the gateway has created.
func (s *site) join(id string) *node {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n := s.node(id)
	var err error
	if n.topic, err = qosmutex.Open(ctx, n.p, "crane"); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = n.topic.Close(ctx)
	})
	return n
}

// enter stays inside for as long as work takes.
func (n *node) enter(priority int64, work func()) visit {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := n.topic.Lock(ctx, "default", qosmutex.WithPriority(priority))
	if err != nil {
		n.Error(err)
		return visit{}
	}
	v := visit{who: n.p.ID(), fence: h.Fence(), in: time.Now().UnixMilli()}
	work()
	v.lost = h.Check() != nil
	v.out = time.Now().UnixMilli()
	_ = h.Unlock()
	return v
}

// awaitWaiting waits until so many wait, as the root publishes.
func (n *node) awaitWaiting(waiting int) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for st, err := range qosmutex.WatchStates(ctx, n.p, n.topic.Name()) {
		if err != nil {
			break
		}
		if st.Resource == "default" && st.Waiting == waiting {
			return
		}
	}
	n.Fatalf("there were never %d waiting", waiting)
}

// Clients of three kinds and a Go node want the same lock, again and again.
func TestClientsNeverOverlap(t *testing.T) {
	extent.NotShort(t, "real processes")
	const rounds = 4
	onSites(t, func(s *site) {
		foreign := map[string][]string{"shell": shell(s.T), "python": python(s.T), "javascript": javascript(s.T)}
		s.gateway("gw")
		n := s.join("go")
		var running []*process.Process
		for id, command := range foreign {
			running = append(running, s.client(id, command, 100, rounds, 150))
		}
		var all []visit
		for range rounds {
			all = append(all, n.enter(100, func() { time.Sleep(150 * time.Millisecond) }))
		}
		for _, p := range running {
			p.Await(s.T, patience)
			v, err := visits(p.Name, p.Printed())
			if err != nil {
				s.Error(err)
			}
			if len(v) != rounds || !slices.ContainsFunc(v, func(v visit) bool { return !v.lost }) { // a machine that is busy for seconds costs a hold
				s.Errorf("%s entered %d times, want %d, not all of them lost: %s", p.Name, len(v), rounds, p.Printed())
			}
			all = append(all, v...)
		}
		if err := judge(all); err != nil {
			s.Error(err)
		}
		slices.SortFunc(all, func(a, b visit) int { return cmp.Compare(a.in, b.in) })
		var order []string
		for _, v := range all {
			order = append(order, v.who)
		}
		s.Logf("in order: %s", strings.Join(order, " "))
	})
}

// The least important waits longest, although it came first.
func TestPriorityDecidesWhoIsNext(t *testing.T) {
	extent.NotShort(t, "real processes")
	onSites(t, func(s *site) {
		sh, py, js := shell(s.T), python(s.T), javascript(s.T)
		s.gateway("gw")
		n, other := s.join("go"), s.join("go-2")
		var waiting []*process.Process
		var late visit
		entered := make(chan struct{})
		first := n.enter(0, func() {
			waiting = append(waiting, s.client("python", py, 300, 1, 50))
			n.awaitWaiting(1)
			waiting = append(waiting, s.client("javascript", js, 200, 1, 50))
			n.awaitWaiting(2)
			go func() {
				defer close(entered)
				late = other.enter(150, func() {})
			}()
			n.awaitWaiting(3)
			waiting = append(waiting, s.client("shell", sh, 100, 1, 50))
			n.awaitWaiting(4)
		})
		<-entered
		all := []visit{first, late}
		for _, p := range waiting {
			p.Await(s.T, patience)
			v, err := visits(p.Name, p.Printed())
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, v...)
		}
		if err := judge(all); err != nil {
			s.Error(err)
		}
		slices.SortFunc(all, func(a, b visit) int { return cmp.Compare(a.in, b.in) })
		var order []string
		for _, v := range all {
			order = append(order, v.who)
		}
		if got, want := strings.Join(order, " "), "go shell go-2 javascript python"; got != want {
			s.Errorf("in order: %s, want %s", got, want)
		}
	})
}

// The gateway that answers is killed while a client is inside. The client stops by
// itself, and another one gets in at the other gateway, later and with a higher fence.
func TestKilledGatewayIsReplaced(t *testing.T) {
	extent.NotShort(t, "real processes")
	onSites(t, func(s *site) {
		py := python(s.T)
		first := s.gateway("gw-1")
		n := s.join("go")
		n.awaitActive("crane", "gw-1")
		s.gateway("gw-2")
		holder := s.client("python", py, 100, 1, 600_000)
		poll.Within(s.T, patience, "the first is inside", func() bool { return strings.HasPrefix(holder.Printed(), "in ") })
		next := s.client("python-2", py, 100, 1, 50)
		n.awaitWaiting(1)
		first.Kill()
		killed := time.Now()
		holder.Await(s.T, patience)
		stopped := time.Since(killed)
		next.Await(s.T, patience)
		s.Logf("the holder stopped %v after the kill, the next was in and out after %v", stopped.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
		a, err := visits("python", holder.Printed())
		if err != nil {
			s.Fatal(err)
		}
		b, err := visits("python-2", next.Printed())
		if err != nil {
			s.Fatal(err)
		}
		if len(a) != 1 || !a[0].lost || len(b) != 1 || b[0].lost {
			s.Fatalf("want one that is lost, then one: %+v %+v", a, b)
		}
		if err := judge(append(a, b...)); err != nil {
			s.Error(err)
		}
	})
}

// awaitActive waits until a gateway is the active one of a lock topic.
func (n *node) awaitActive(topic, gateway string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for st, err := range qosmutex.WatchStates(ctx, n.p, "gateway") {
		if err != nil {
			break
		}
		if st.Resource == topic && st.Holder == gateway {
			return
		}
	}
	n.Fatalf("%s is never active for %s", gateway, topic)
}
