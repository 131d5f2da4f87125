package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// becomes waits until cond holds of the topic's status.
func becomes(t *testing.T, topic *Topic, what string, cond func(s *protocol.Status) bool) {
	t.Helper()
	eventually(t, topic.self.ID+" "+what, func() bool {
		s := topic.Status()
		return cond(&s)
	})
}

// The root loses its connection for good: the others elect one of them, who holds
// goes on holding, and who waits is served. When the old root is back, it takes part.
func TestRootThatIsCutOffIsReplaced(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	cable := startProxy(t, url)
	root := open(t, join(t, cable.url(), "root"), "t", Found(), WithResources("crane"), WithNodePriority(0))
	var members []*Topic
	for i, id := range []string{"a", "b", "c"} {
		members = append(members, open(t, join(t, url, id), "t", WithNodePriority(int64(i+1))))
	}
	becomes(t, root, "had three voters", func(s *protocol.Status) bool { return len(s.Voters) == 3 })
	held := lock(t, members[2], "crane")
	confirmed(t, held)
	cable.cut(true)
	becomes(t, members[0], "the root", func(s *protocol.Status) bool { return s.Role == protocol.Root })
	next := make(chan *Hold)
	go func() {
		h, err := members[1].Lock(testContext(t), "crane")
		if err != nil {
			t.Error(err)
		}
		next <- h
	}()
	becomes(t, members[0], "aware of the waiting", func(s *protocol.Status) bool { return s.Resources[0].Waiting == 1 })
	if err := held.Check(); err != nil {
		t.Errorf("the hold ended with the root: %v", err)
	}
	unlock(t, held)
	h := <-next
	if h.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), held.Fence())
	}
	unlock(t, h)
	if n := members[0].Status().Counters.Adopted; n != 1 {
		t.Errorf("%d holds were adopted, want 1", n)
	}
	cable.cut(false)
	unlock(t, lock(t, root, "crane"))
}

// The root decided alone, as there are two of them, and ends. The other one was opened
// with Found, too, and goes on above all that the root may have let in; when the root is
// back, it takes part.
func TestLoneRootIsReplacedByAnotherFounder(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	cable := startProxy(t, url)
	root := open(t, join(t, cable.url(), "root"), "t", Found(), WithResources("crane"), WithNodePriority(0))
	other := open(t, join(t, url, "other"), "t", Found(), WithNodePriority(1))
	held := lock(t, root, "crane")
	cable.cut(true)
	h := lock(t, other, "crane")
	if err := held.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("Check of the former root's hold = %v, want ErrLost", err)
	}
	if h.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), held.Fence())
	}
	unlock(t, h)
	cable.cut(false)
	again := lock(t, root, "crane")
	if again.Fence() <= h.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), h.Fence())
	}
	unlock(t, again)
}

// Two of three voters are gone for good. With WithAvailability the third one founds the
// topic anew, above what they can have let in; without, it waits for them.
func TestAvailabilityGoesOnWithoutAMajority(t *testing.T) {
	t.Parallel()
	for _, available := range []bool{true, false} {
		url := startBroker(t, "127.0.0.1:0").URL()
		cable := startProxy(t, url)
		opts := []Option{WithNodePriority(0)}
		if available {
			opts = append(opts, WithAvailability())
		}
		root := open(t, join(t, cable.url(), "root"), "t", append(opts, Found(), WithResources("crane"))...)
		open(t, join(t, cable.url(), "a"), "t", opts...)
		last := open(t, join(t, url, "b"), "t", append(opts, WithNodePriority(2))...)
		becomes(t, root, "had three voters", func(s *protocol.Status) bool { return len(s.Voters) == 3 })
		before := lock(t, last, "crane")
		unlock(t, before)
		cable.cut(true)
		if !available {
			becomes(t, last, "without a root", func(s *protocol.Status) bool { return s.Role == protocol.Joining && s.Session == 0 })
			ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
			if h, err := last.Lock(ctx, "crane"); err == nil {
				t.Errorf("in with fence %d although a majority may only be cut off", h.Fence())
			}
			cancel()
			continue
		}
		// Sooner than a founder that gives voters time to reconnect.
		ctx, cancel := context.WithTimeout(testContext(t), reconnectWait)
		h, err := last.Lock(ctx, "crane")
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if h.Fence() <= before.Fence() {
			t.Errorf("fence %d after %d", h.Fence(), before.Fence())
		}
		unlock(t, h)
	}
}

// The retained view names the voters, and after an election the new root.
func TestViewNamesRootAndVoters(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	cable := startProxy(t, url)
	root := open(t, join(t, cable.url(), "root"), "t", Found(), WithResources("crane"), WithNodePriority(0))
	a := open(t, join(t, url, "a"), "t", WithNodePriority(1))
	open(t, join(t, url, "b"), "t", WithNodePriority(2))
	becomes(t, root, "had three voters", func(s *protocol.Status) bool { return len(s.Voters) == 3 })
	views := make(chan View, 64)
	stop, err := a.p.SubscribeRaw(testContext(t), []string{"lock", "t", "view"}, func(m pubsub.RawMessage) {
		var v View
		if err := json.Unmarshal(m.Payload, &v); err != nil {
			t.Error(err)
		}
		views <- v
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	await := func(root string, voters ...string) {
		t.Helper()
		for ctx := testContext(t); ; {
			select {
			case v := <-views:
				if v.Root == root && (voters == nil || slices.Equal(v.Voters, voters)) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("no view names root %s and voters %v", root, voters)
			}
		}
	}
	await("root", "root", "a", "b")
	cable.cut(true)
	await("a")
}

// With trusted wills the next one is in as soon as the broker says that the holder
// has ended: here before half of its session is over.
func TestTrustedWillEndsAHoldAtOnce(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	timing := LAN()
	timing.TTL, timing.Heartbeat = 6*protocol.Second, 1500*protocol.Millisecond
	opts := []Option{WithTiming(timing), WithTrustedWills()}
	root := open(t, join(t, url, "root"), "t", append(opts, Found(), WithResources("crane"))...)
	cable := startProxy(t, url)
	doomed := open(t, join(t, cable.url(), "doomed"), "t", opts...)
	lock(t, doomed, "crane")
	cable.cut(true)
	ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
	defer cancel()
	h, err := root.Lock(ctx, "crane")
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, h)
}

// A late will does not end what was started since.
func TestLateWillIsNotMeant(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root := open(t, join(t, url, "root"), "t", Found(), WithResources("crane"), WithTrustedWills())
	p := join(t, url, "a")
	a := open(t, p, "t")
	h := lock(t, a, "crane")
	root.willOf("a", a.self.Incarnation+1) // of a participant that never opened the topic
	root.willOf("nobody", 1)
	if n := root.Status().Counters.Lapses; n != 0 {
		t.Errorf("%d sessions lapsed", n)
	}
	root.willOf("a", p.Incarnation())
	if n := root.Status().Counters.Lapses; n != 1 {
		t.Errorf("the right will: %d sessions lapsed, want 1", n)
	}
	<-h.Context().Done()
}

// A founder gives the voters of a view that the broker retains the time to reconnect.
func TestFounderAwaitsTheVotersOfARetainedView(t *testing.T) {
	for name, c := range map[string]struct {
		view        string
		least, most time.Duration
	}{
		"several voters": {`{"voters":["a","b","c"],"epoch":"1.1"}`, reconnectWait, 2 * reconnectWait},
		"one voter":      {`{"voters":["a"],"epoch":"1.1"}`, 0, reconnectWait},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
				ctx := context.Background()
				p := join("founder")
				defer p.Close(ctx)
				if err := p.PublishRaw(pubsub.Main, []string{"lock", "t", "view"}, []byte(c.view), true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				began := time.Now()
				topic, err := Open(ctx, p, "t", Found(), clock)
				if err != nil {
					t.Fatal(err)
				}
				defer topic.Close(ctx)
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("founded after %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

// A member was cut off since before its root had voters, and takes it for one that decides
// alone. Before it founds the topic it learns of them from the broker.
func TestMemberThatFoundsAwaitsTheVotersOfARetainedView(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("root"), join("member")
		defer q.Close(ctx)
		root, err := Open(ctx, p, "t", Found(), clock)
		if err != nil {
			t.Fatal(err)
		}
		member, err := Open(ctx, q, "t", Found(), clock, WithNodePriority(1))
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close(ctx)
		time.Sleep(time.Second)
		root.end(ErrClosed) // it dies
		p.Close(ctx)
		if err := q.PublishRaw(pubsub.Main, []string{"lock", "t", "view"}, []byte(`{"voters":["a","b","c"],"epoch":"1.1"}`), true); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		if err := member.await(ctx, func() bool { return member.status.Role == protocol.Root }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(died); took < reconnectWait {
			t.Errorf("founded after %v, want %v at least", took, reconnectWait)
		}
	})
}
