package qosmutex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
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
		if _, err := all[2].Wait(ended); !errors.Is(err, ErrCancelled) {
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

// listening is a server without a register that has listened for so long.
func listening(t *testing.T, p *pubsub.Participant, long time.Duration, opts ...Option) (s *Server, end func()) {
	t.Helper()
	s = newServer(t, p, opts...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx) }()
	time.Sleep(long)
	return s, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// A server without a register, which has heard of no root of a topic for long enough, need
// neither look for one nor wait for what it may have granted.
func TestServerThatListenedCreatesAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("node")
		defer p.Close(ctx)
		s, end := listening(t, p, 2*LAN().Grace(), clock)
		defer end()
		for _, name := range []string{"crane", "ramp"} {
			begun := time.Now()
			h, err := topicOf(t, s, name).TryLock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 3*LAN().JoinWait {
				t.Errorf("%s was had after %v", name, took)
			}
			_ = h.Unlock()
		}
	})
}

// Where another server may create the topic in another register, it looks for a root first:
// two roots would contend for it.
func TestServersCreateATopicOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		join := func(id string) *pubsub.Participant {
			data := map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}
			if id == "broker" {
				data[jsonlock.CreatesKey] = jsonlock.ServesLocks
			}
			serves := pubsub.WithUserData(data)
			p, err := pubsub.Join(ctx, "", id, pubsub.WithDialer(w.b.Dial), serves)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		p, q := join("broker"), join("serve")
		defer p.Close(ctx)
		defer q.Close(ctx)
		first, end := listening(t, p, 2*LAN().Grace(), WithRegister(local.Memory()), w.clock)
		defer end()
		second, end := listening(t, q, 2*LAN().Grace(), w.clock)
		defer end()
		for _, name := range []string{"crane", "ramp", "lift"} {
			var topics [2]*Topic
			var opening sync.WaitGroup
			for i, s := range []*Server{second, first} {
				opening.Go(func() { topics[1-i] = topicOf(t, s, name) })
				time.Sleep(10 * time.Second) // the machine is busy
			}
			opening.Wait()
			if a, b := topics[0].Status(), topics[1].Status(); a.Role != protocol.Root || b.Role != protocol.Member {
				t.Errorf("%s: the one with the register is %v, the other one %v", name, a.Role, b.Role)
			}
		}
	})
}

// The presence of a server with a register may be left over from before a power failure.
func TestServerCreatesBesideAnOldPresence(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		old, err := pubsub.Join(ctx, "", "old", pubsub.WithDialer(w.b.Dial), pubsub.WithUserData(map[string]string{
			jsonlock.ServesKey: jsonlock.ServesLocks, jsonlock.CreatesKey: jsonlock.ServesLocks,
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close(ctx)
		p, _ := w.join("serve")
		defer p.Close(ctx)
		s, end := listening(t, p, 2*LAN().Grace(), w.clock)
		defer end()
		begun := time.Now()
		if role := topicOf(t, s, "crane").Status().Role; role != protocol.Root {
			t.Errorf("it is %v", role)
		}
		if took := time.Since(begun); took < slowRoot*LAN().TTL || took > 2*slowRoot*LAN().TTL {
			t.Errorf("it waits for the other for %v", took)
		}
	})
}

// Whenever such a server began to listen, and a root elsewhere died, it lets nobody in
// beside a hold of that one's members.
func TestServerThatListenedRespectsARootThatDied(t *testing.T) {
	for _, lived := range []time.Duration{0, time.Second, 2900 * time.Millisecond, 3100 * time.Millisecond} {
		virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
			ctx := context.Background()
			p, q, r := join("node"), join("root"), join("member")
			defer p.Close(ctx)
			defer r.Close(ctx)
			root, err := Open(ctx, q, "crane", Create(), WithOpenResources(), clock)
			if err != nil {
				t.Fatal(err)
			}
			member, err := Open(ctx, r, "crane", clock)
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close(ctx)
			before, err := member.Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			s, end := listening(t, p, lived, clock)
			defer end()
			_ = q.Close(ctx) // as a crash, for the topic
			_ = root.Close(ctx)
			for s.silence(&servedTopic{}) < LAN().Grace()-300*time.Millisecond { // it may create the topic by what it has heard
				time.Sleep(10 * time.Millisecond)
			}
			after, err := topicOf(t, s, "crane").Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			if before.Check() == nil || after.Fence() <= before.Fence() {
				t.Errorf("the root lived for %v: fence %d beside %d, which is valid", lived, after.Fence(), before.Fence())
			}
			_ = after.Unlock()
		})
	}
}

// A server that keeps its locks in memory and is started again with a shorter TTL waits for
// what was granted under the longer one, however often that happens.
func TestServerWaitsForAnEarlierTTL(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		serve := func(ttl time.Duration) (s *Server, kill func()) {
			p, c := w.join("gw")
			s, end := listening(t, p, 0, WithTiming(LAN().WithTTL(ttl)), w.clock)
			return s, func() { // the broker knows of it before the next one comes
				c.cut()
				time.Sleep(10 * time.Millisecond)
				w.killed.Go(func() { end(); _ = p.Close(ctx) })
			}
		}
		s, kill := serve(20 * time.Second)
		topicOf(t, s, "crane")
		q, cable := w.join("member")
		member, err := Open(ctx, q, "crane", w.clock)
		if err != nil {
			t.Fatal(err)
		}
		before, err := member.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cable.cut()
		kill()
		for range 2 {
			s, kill = serve(time.Second)
			topicOf(t, s, "crane")
			time.Sleep(3 * time.Second)
			kill()
		}
		s, kill = serve(time.Second)
		defer kill()
		restarted := time.Now()
		topic := topicOf(t, s, "crane")
		after, err := topic.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		if before.Check() == nil || after.Fence() <= before.Fence() {
			t.Errorf("fence %d beside %d, which is valid for %v", after.Fence(), before.Fence(), before.Remaining())
		}
		if took := time.Since(restarted); took > 25*time.Second {
			t.Errorf("it was had after %v", took)
		}
		if v := topic.View(); v.TTL != 1 || v.EarlierTTL != 0 {
			t.Errorf("the TTL is %v, and that of before %v", v.TTL, v.EarlierTTL)
		}
		w.killed.Go(func() { _ = member.Close(ctx); _ = q.Close(ctx) })
	})
}

// What is wrong names the time that is left, not all that a root waits after its start.
func TestTroubleNamesTheTimeLeft(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		p := join("root")
		defer p.Close(context.Background())
		topic, err := Open(context.Background(), p, "crane", Create(), WithOpenResources(), WithTiming(LAN().WithTTL(10*time.Minute)), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(context.Background())
		begun := time.Now()
		for range 2 {
			time.Sleep(5 * time.Minute)
			want := LAN().WithTTL(10*time.Minute).Grace() - time.Since(begun)
			_, said, _ := strings.Cut(topic.Trouble(), " or over, in ")
			got, err := time.ParseDuration(strings.TrimSuffix(said, " at most"))
			if err != nil || got < want-time.Second || got > want+time.Second {
				t.Errorf("it is said to settle in %q, want about %v", said, want)
			}
		}
		time.Sleep(time.Minute)
		if said := topic.Trouble(); said != "" {
			t.Errorf("after the grace: %s", said)
		}
	})
}
