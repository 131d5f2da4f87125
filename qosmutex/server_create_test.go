package qosmutex

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

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

// A server whose connection breaks while it creates a lock lets nobody in before anybody can have
// heard that it is there: another one may create the lock meanwhile.
func TestCreatorThatIsCutOffLetsNobodyIn(t *testing.T) {
	for after := 10 * time.Millisecond; after < LAN().JoinWait; after += 20 * time.Millisecond {
		inVirtualTime(t, func(t *testing.T, w *world) {
			ctx := context.Background()
			p, cable := w.join("serve")
			defer p.Close(ctx)
			s, end := listening(t, p, 2*LAN().Grace(), w.clock)
			defer end()
			got := make(chan *Hold, 1)
			soon, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			go func() {
				var h *Hold
				if topic, err := s.Topic(soon, "crane"); err == nil {
					h, _ = topic.Lock(soon, "hook")
				}
				got <- h
			}()
			time.Sleep(after)
			cable.Cut()
			time.Sleep(5 * LAN().JoinWait)
			select {
			case h := <-got:
				t.Errorf("cut off after %v, it was let in with fence %d", after, h.Fence())
				return
			default:
			}
			cable.Restore()
			if h := <-got; h == nil {
				t.Errorf("cut off after %v, it is not let in when it is heard again", after)
			}
		})
	}
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
			for s.silence("lift", &servedTopic{}) < LAN().Grace()-300*time.Millisecond { // it may create the topic by what it has heard
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
				c.Cut()
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
		cable.Cut()
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

// What is wrong names the time that is left, not all that a root waits after its start, and never
// no time at all.
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
		for said := topic.Trouble(); said != ""; said = topic.Trouble() {
			if strings.HasSuffix(said, ", in 0s at most") || time.Since(begun) > 11*time.Minute {
				t.Fatal(said)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
