package qosmutex

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex/register/local"
)

func newServer(t *testing.T, p *pubsub.Participant, opts ...Option) *Server {
	t.Helper()
	s, err := NewServer(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func topicOf(t *testing.T, s *Server, name string) *Topic {
	t.Helper()
	topic, err := s.Topic(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// Whoever asks a server for a topic gets the same one.
func TestServerOpensATopicOnce(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		p := join("node")
		defer p.Close(context.Background())
		s := newServer(t, p, WithRegister(local.Memory()), clock)
		topics := make(chan *Topic, 10)
		for range cap(topics) {
			go func() {
				topic, err := s.Topic(context.Background(), "crane")
				if err != nil {
					t.Error(err)
				}
				topics <- topic
			}()
		}
		first := <-topics
		for range cap(topics) - 1 {
			if other := <-topics; other != first {
				t.Error("two topics of one name")
			}
		}
		if _, err := s.Topic(context.Background(), strings.Repeat("x", 200)); !errors.Is(err, ErrInvalidName) {
			t.Errorf("a name that is too long: %v", err)
		}
		s.mu.Lock()
		s.account.total = s.limits.Total
		s.mu.Unlock()
		if _, err := s.Topic(context.Background(), "one more"); !errors.Is(err, ErrFull) {
			t.Errorf("one more than %d: %v", maxServed, err)
		}
		s.Close()
		if first.Err() == nil {
			t.Error("the topic outlives the server")
		}
		if _, err := s.Topic(context.Background(), "crane"); !errors.Is(err, ErrClosed) {
			t.Errorf("of a server that was closed: %v", err)
		}
	})
}

// Without a register a server is a member where there is a root, and becomes the root
// where there is none any more.
func TestServerOpensAgainWithoutARoot(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("node"), join("root")
		defer p.Close(ctx)
		root, err := Open(ctx, q, "crane", Create(), WithOpenResources(), clock)
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(t, p, clock)
		defer s.Close()
		topic := topicOf(t, s, "crane")
		if st := topic.Status(); st.Root.ID != "root" {
			t.Errorf("%q is the root", st.Root.ID)
		}
		synctest.Wait() // the server knows the root by its presence
		_ = q.Close(ctx)
		_ = root.Close(ctx)
		died := time.Now()
		for topicOf(t, s, "crane") == topic {
			time.Sleep(100 * time.Millisecond)
		}
		topic = topicOf(t, s, "crane")
		if h, err := topic.Lock(ctx, "hook"); err != nil || h.Unlock() != nil {
			t.Error(err)
		}
		// The session of the dead root, the search for another one, and what it may have granted.
		if took, most := time.Since(died), 2*time.Duration(topic.timing.TTL)+leastPatience+time.Second; took > most {
			t.Errorf("served after %v, and %v would do", took, most)
		}
		if st := topic.Status(); st.Root.ID != "node" {
			t.Errorf("%q is the root", st.Root.ID)
		}
	})
}

// Requests are served in the order in which they were asked for, if they are equally
// important.
func TestAskKeepsTheOrder(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("node")
		defer p.Close(ctx)
		topic, err := Open(ctx, p, "crane", Create(), WithResources("hook"), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		var all []*Request
		for i := range 100 {
			r, err := topic.Ask("hook", WithPriority(int64(i%2)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		if _, err := topic.Ask("sling"); !errors.Is(err, ErrUndeclared) {
			t.Errorf("what is not declared: %v", err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := all[2].Wait(ended); !errors.Is(err, ErrCanceled) {
			t.Errorf("withdrawn: %v", err)
		}
		order := append([]*Request{}, all[0])
		for _, odd := range []int{0, 1} {
			for i, r := range all {
				if i%2 == odd && i != 0 && i != 2 {
					order = append(order, r)
				}
			}
		}
		last := uint64(0)
		for i, r := range order {
			h, err := r.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if h.Fence() <= last {
				t.Fatalf("request %d was served before the one ahead of it", i)
			}
			last = h.Fence()
			if i+1 < len(order) && order[i+1].Decided() {
				t.Fatalf("two are inside")
			}
			_ = h.Unlock()
			if i+1 < len(order) && !order[i+1].Decided() {
				t.Fatalf("request %d is not the next one", i+1)
			}
		}
	})
}

// A root that has just begun does not know whether somebody holds by the word of an earlier
// one. So it has no answer to a try before a grace is over; then the try is granted.
func TestTryWaitsForATrueAnswer(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("root")
		defer p.Close(ctx)
		begun := time.Now()
		topic, err := Open(ctx, p, "crane", Create(), WithResources("hook", "sling"), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		if why := topic.Trouble(); !strings.Contains(why, "has just begun") {
			t.Errorf("trouble %q", why)
		}
		from := topic.View().GrantsFrom
		if !from.Equal(topic.View().GrantsFrom) {
			t.Error("the time from when on it grants changes")
		}
		ended, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := topic.TryLock(ended, "sling"); !errors.Is(err, ErrTimeout) {
			t.Errorf("within a second: %v", err)
		}
		var holds []*Hold
		for _, resource := range []string{"hook", Any} {
			h, err := topic.TryLock(ctx, resource)
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		if took := time.Since(begun); took < LAN().Grace() || took > LAN().Grace()+time.Second {
			t.Errorf("granted after %v", took)
		}
		if early := time.Until(from); early > time.Millisecond || early < -time.Second {
			t.Errorf("granted %v before it had to be", early)
		}
		if from := topic.View().GrantsFrom; !from.IsZero() {
			t.Errorf("granted now, and from %v on", from)
		}
		if _, err := topic.TryLock(ctx, "hook"); !errors.Is(err, ErrBusy) {
			t.Errorf("what is held: %v", err)
		}
		if why := topic.Trouble(); why != "" {
			t.Errorf("trouble %q of a root that knows all", why)
		}
		for _, h := range holds {
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if n := len(topic.callsNow()); n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}

// So it is with a deadline, which cannot be promised before that is known.
func TestDeadlineWaitsForATrueAnswer(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("root")
		defer p.Close(ctx)
		topic, err := Open(ctx, p, "crane", Create(), WithResources("hook"), WithModels(Models{Priority: Deadline}), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		ask := func(within time.Duration) (*Hold, error) {
			return topic.Lock(ctx, "hook", WithDeadline(time.Now().Add(within)), WithHold(time.Minute))
		}
		if _, err := ask(time.Second); !errors.Is(err, ErrDeadlineMissed) {
			t.Errorf("within a second: %v", err)
		}
		h, err := ask(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(30 * time.Second); !errors.Is(err, ErrDeadlineUnattainable) {
			t.Errorf("beside a hold of a minute: %v", err)
		}
		_ = h.Unlock()
	})
}
