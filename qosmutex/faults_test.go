package qosmutex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/brokers"
	"padme/tests/poll"
	"padme/tests/proxy"
)

// Each participant has its own connection through a proxy that cuts it now and
// then, the root too.
func TestKilledConnectionsDelayOnly(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	proxies := []*proxy.Proxy{proxy.Start(t, url), proxy.Start(t, url), proxy.Start(t, url)}
	topics := []*Topic{open(t, join(t, proxies[0].URL(), "root"), "t", Create(), WithResources("crane"), WithNodePriority(0))}
	for i, id := range []string{"a", "b"} {
		topics = append(topics, open(t, join(t, proxies[i+1].URL(), id), "t"))
	}
	done := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(150 * time.Millisecond):
				proxies[i%len(proxies)].Break()
			}
		}
	})
	enterDespiteFaults(t, topics, 2*time.Second)
	close(done)
	cutter.Wait()
	// Without faults everybody gets in again.
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
}

// enterDespiteFaults has all topics enter as often as they can for a while, and
// then until there were two entries for each of them however long that takes: a
// slow machine is not a stall. A hold may be lost; only one that passes Check
// counts as one, and two of those never meet.
func enterDespiteFaults(t *testing.T, topics []*Topic, d time.Duration) {
	t.Helper()
	var g guarded
	ctx, enough := context.WithCancel(testContext(t))
	begin := time.Now()
	stopIfEnough := func() {
		if time.Since(begin) >= d && g.entries.Load() >= int32(2*len(topics)) {
			enough()
		}
	}
	defer time.AfterFunc(d, stopIfEnough).Stop()
	var wg sync.WaitGroup
	for _, topic := range topics {
		wg.Go(func() {
			for ctx.Err() == nil {
				h, err := topic.Lock(ctx, "crane")
				switch {
				case errors.Is(err, context.Canceled):
					return
				case err != nil:
					t.Errorf("%s: Lock after %d entries of all: %v", topic.self.ID, g.entries.Load(), err)
					return
				case h.Check() == nil:
					g.visit(t, h)
				}
				if err := h.Unlock(); err != nil && !errors.Is(err, ErrLost) {
					t.Errorf("%s: Unlock: %v", topic.self.ID, err)
				}
				stopIfEnough()
			}
		})
	}
	wg.Wait()
	enough()
	t.Logf("%d entries", g.entries.Load())
}

func TestRestartedBrokerDelaysOnly(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0")
	addr := b.TCPAddr().String()
	root, members := group(t, b.URL(), "t", 2)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		time.Sleep(200 * time.Millisecond)
		stopBroker(t, b)
		startEmbedded(t, addr)
	}()
	enterDespiteFaults(t, append(members, root), 3*time.Second)
	<-restarted
	for _, topic := range append(members, root) {
		unlock(t, lock(t, topic, "crane"))
	}
	// The broker has forgotten what was retained: the root tells it again.
	states := collectStates(t, root.p, "t", 2)
	if len(states) != 2 {
		t.Errorf("states after the restart: %v", states)
	}
}

func TestHolderThatDiesIsReplacedAfterTTL(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 1)
	cable := proxy.Start(t, url)
	doomed := open(t, join(t, cable.URL(), "doomed"), "t")
	h := lock(t, doomed, "crane")
	ctx := h.Context()
	cable.Cut()
	cut := time.Now()
	next := lock(t, members[0], "crane")
	if waited := time.Since(cut); waited < 300*time.Millisecond {
		t.Errorf("the next one entered after %v, before the TTL of the dead one", waited)
	}
	if err := h.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("the dead one's Check = %v, want ErrLost before another is inside", err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("cause = %v, want ErrLost", err)
	}
	if next.Fence() <= h.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), h.Fence())
	}
	if err := h.Unlock(); !errors.Is(err, ErrLost) {
		t.Errorf("Unlock = %v, want ErrLost", err)
	}
	if err := next.Check(); err != nil {
		t.Error(err)
	}
	unlock(t, next)
	cable.Restore() // it comes back and can go on
	unlock(t, lock(t, doomed, "crane"))
	unlock(t, lock(t, root, "crane"))
}

func TestDoTellsOfTheLoss(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	group(t, url, "t", 0)
	cable := proxy.Start(t, url)
	m := open(t, join(t, cable.URL(), "m"), "t")
	err := m.Do(testContext(t), "crane", func(ctx context.Context, h *Hold) error {
		cable.Cut()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("cause = %v, want ErrLost", context.Cause(ctx))
		}
		return nil
	})
	if !errors.Is(err, ErrLost) {
		t.Errorf("Do = %v, want ErrLost", err)
	}
}

func TestParticipantThatEndsEndsItsTopics(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	group(t, url, "t", 0)
	p := join(t, url, "m")
	m := open(t, p, "t")
	h := lock(t, m, "crane")
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	<-m.Done()
	if err := m.Err(); !errors.Is(err, ErrClosed) || !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Err = %v", err)
	}
	if err := h.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("Check = %v, want ErrLost", err)
	}
	if _, err := m.Lock(testContext(t), "crane"); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "join again") {
		t.Errorf("Lock = %v, want ErrClosed, and that joining again helps", err)
	}
	if _, err := Open(testContext(t), p, "t"); !errors.Is(err, ErrClosed) {
		t.Errorf("Open = %v, want ErrClosed", err)
	}
}

func TestForeignMessagesAreCountedAndChangeNothing(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 1)
	m, stranger := members[0], join(t, url, "stranger")
	h := lock(t, m, "crane")
	from := protocol.Node{ID: "stranger", Incarnation: 7}
	messages := []struct {
		why     dropReason
		payload []byte
	}{
		{dropMalformed, []byte("hello")},
		{dropMalformed, []byte{0xdd, 0xff, 0xff, 0xff, 0xff}},
		{dropMalformed, nil},
		{dropSender, protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindRelease, From: m.self, To: root.self})},
		{dropAddress, protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindRelease, From: from, To: protocol.Node{ID: "root", Incarnation: 1}})},
		{dropAddress, protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindBeat, From: from, To: m.self})},
		{dropAddress, protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindJoin, From: from})},
		{dropMachine, protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindRelease, From: from, To: root.self, Seq: 1, Link: 1, Resource: "crane"})},
	}
	var want [dropEnd]uint64
	for _, msg := range messages {
		if err := stranger.Send("root", root.channel, msg.payload); err != nil {
			t.Fatal(err)
		}
		want[msg.why]++
	}
	toRoot := protocol.AppendMessage(nil, &protocol.Message{Kind: protocol.KindBeat, From: from, To: root.self})
	if err := stranger.PublishRaw(pubsub.Main, []string{"lock", "t", "join", "stranger"}, toRoot, false); err != nil {
		t.Fatal(err)
	}
	want[dropAddress]++
	for _, levels := range [][]string{
		{"lock", "t", "join", "stranger"},
		{"lock", "t", "join", "root"},
		{"lock", "t", "events"},
		{"lock", "t", "crane", "state"},
		{"lock", "t", "nowhere", "state"},
		{"lock", "t", "view"},
	} {
		for _, payload := range []string{"", "{", "[[[[[", `{"event":"granted","topic":"t","resource":"crane","participant":"liar","fence":"18446744073709551615"}`, "\xc1"} {
			if err := stranger.PublishRaw(pubsub.Main, levels, []byte(payload), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll.Until(t, "every foreign message is counted", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		for why, n := range want {
			if root.metrics.dropped[why] < n {
				return false
			}
		}
		return true
	})
	if err := h.Check(); err != nil {
		t.Error(err)
	}
	if _, err := root.TryLock(testContext(t), "crane"); !errors.Is(err, ErrBusy) {
		t.Errorf("TryLock = %v, want ErrBusy", err)
	}
	unlock(t, h)
	unlock(t, lock(t, root, "crane"))
}

func TestDuplicateOpen(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, _ := group(t, url, "t", 0)
	if _, err := Open(testContext(t), root.p, "t"); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "open already") {
		t.Errorf("Open twice = %v", err)
	}
	if err := root.Err(); err != nil {
		t.Errorf("the first one ended: %v", err)
	}
	if _, err := pubsub.Join(testContext(t), url, "root", pubsub.WithDomain(brokers.Domain(t))); !errors.Is(err, pubsub.ErrDuplicateID) {
		t.Errorf("Join with a taken id = %v", err)
	}
	unlock(t, lock(t, root, "crane"))
}

// TestWhoHoldsSinceWhenOutlivesTheRoot: the next root says the same of a hold that goes on.
func TestWhoHoldsSinceWhenOutlivesTheRoot(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 2, WithRegister(local.Memory()), WithTiming(LAN()))
	watcher := join(t, url, "watcher")
	h := lock(t, members[0], "crane")
	held := func(root string, other bool) (s State) {
		poll.Until(t, "the state is published", func() bool {
			s = collectStates(t, watcher, "t", 1)["crane"]
			return s.Status == StatusHeld && (s.Root == root) != other
		})
		return s
	}
	was := held("root", false)
	closeTopic(t, root)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	is := held("root", true)
	poll.Until(t, "it is said since when", func() bool { is = held("root", true); return is.Since.Equal(was.Since) })
	if is.How != was.How || was.How == "" || is.Holder != was.Holder || is.Fence != was.Fence {
		t.Errorf("%+v, it was %+v", is, was)
	}
	unlock(t, h)
}

// TestFreeSinceTheLastHold, which may have been too short for a state to show it.
func TestFreeSinceTheLastHold(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, _ := group(t, url, "t", 0)
	watcher := join(t, url, "watcher")
	for range 5 {
		began := time.Now()
		h := lock(t, root, "crane")
		unlock(t, h)
		var s State
		poll.Until(t, "the state is published", func() bool {
			s = collectStates(t, watcher, "t", 1)["crane"]
			return s.Status == StatusFree && s.Fence == formatFence(h.Fence())
		})
		if s.Since.Before(began.Round(0).UTC()) {
			t.Errorf("free since %v, and a hold began at %v", s.Since, began)
		}
		time.Sleep(30 * time.Millisecond) // states of a resource are 20 ms apart
	}
}

func TestRootThatClosesHandsOver(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2, WithRegister(local.Memory()), WithTiming(LAN()))
	h := lock(t, members[0], "crane")
	closeTopic(t, root)
	if err := h.Check(); err != nil {
		t.Errorf("the hold did not survive the planned change of root: %v", err)
	}
	unlock(t, h)
	next := lock(t, members[1], "crane")
	if next.Fence() <= h.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), h.Fence())
	}
	poll.Until(t, "the new root publishes the state", func() bool {
		s := collectStates(t, root.p, "t", 2)["crane"]
		return s.Root != "root" && s.Holder == "b" && s.Fence == formatFence(next.Fence())
	})
	unlock(t, next)
	contend(t, members, 20, &guarded{})
}
