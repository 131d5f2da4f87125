package qosmutex

import (
	"context"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/capture"
)

// Two participants that were given different registers create one topic. Whoever comes
// second is a member, says so, and creates the topic once the first is gone for good.
func TestAnotherRegister(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("first"), join("second")
		defer p.Close(ctx)
		defer q.Close(ctx)
		first, err := Open(ctx, p, "t", Create(), WithRegister(local.Memory()), WithResources("crane"), clock)
		if err != nil {
			t.Fatal(err)
		}
		log := &capture.Text{}
		second, err := Open(ctx, q, "t", Create(), WithRegister(local.Memory()), WithResources("crane"), clock, WithLogger(log.Logger()))
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close(ctx)
		if s := second.Status(); s.Role != protocol.Member || s.Root.ID != "first" {
			t.Fatalf("the second is %v below %s", s.Role, s.Root.ID)
		}
		time.Sleep(time.Minute)
		if !log.Has("cannot be the root") || !log.Has("--voters") {
			t.Errorf("it warns: %s", log)
		}
		h, err := second.Lock(ctx, "crane")
		if err != nil {
			t.Fatal(err)
		}
		if h, err := first.TryLock(ctx, "crane"); err == nil {
			t.Errorf("two are in, with fence %d", h.Fence())
		}
		before := h.Fence()
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		now, cancel := context.WithCancel(ctx)
		cancel()
		_ = p.Close(now)
		died := time.Now()
		if h, err = second.Lock(ctx, "crane"); err != nil {
			t.Fatal(err)
		}
		if h.Fence() <= before {
			t.Errorf("fence %d follows %d", h.Fence(), before)
		}
		if took, most := time.Since(died), 3*LAN().TTL; took > most || took < LAN().TTL {
			t.Errorf("it takes %v to go on after the root with the other register, want %v to %v", took, LAN().TTL, most)
		}
		_ = h.Unlock()
		first.Close(now)
	})
}

// They come at the same instant, and listen in vain: the one with the later term goes on.
func TestRegistersThatMeet(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		logs := [2]*capture.Text{{}, {}}
		var topics [2]*Topic
		var all sync.WaitGroup
		for i, id := range []string{"a", "b"} {
			p := join(id)
			defer p.Close(ctx)
			all.Go(func() {
				var err error
				topics[i], err = Open(ctx, p, "t", Create(), WithRegister(local.Memory()), WithResources("crane"), clock, WithLogger(logs[i].Logger()))
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		var entered [2]time.Time
		inside, entries := 0, 0
		var mu sync.Mutex
		began := time.Now()
		for i := range topics {
			all.Go(func() {
				for range 5 {
					h, err := topics[i].Lock(ctx, "crane")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					entered[i] = time.Now()
					if inside++; inside > 1 {
						t.Errorf("two are in %v after the beginning", time.Since(began))
					}
					entries++
					mu.Unlock()
					time.Sleep(500 * time.Millisecond)
					mu.Lock()
					inside--
					mu.Unlock()
					_ = h.Unlock()
				}
			})
		}
		all.Wait()
		roots := 0
		for i, topic := range topics {
			if topic.Status().Role == protocol.Root {
				roots++
			} else if !logs[i].Has("another register") {
				t.Errorf("the member says nothing: %s", logs[i])
			}
			defer topic.Close(ctx)
		}
		if roots != 1 || entries != 10 {
			t.Errorf("%d roots, %d entries", roots, entries)
		}
		for _, l := range logs {
			if l.Has("must not give") {
				t.Error(l)
			}
		}
	})
}

// A server has heard for a TTL what is said to all: it creates a new topic at once, if
// nobody else roots it.
func TestServerNeedNotListenAgain(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx, cancel := context.WithCancel(context.Background())
		p, q, r := join("node"), join("client"), join("stranger")
		defer p.Close(context.Background())
		defer q.Close(context.Background())
		defer r.Close(context.Background())
		var serving sync.WaitGroup
		defer serving.Wait()
		defer cancel()
		other, err := Open(ctx, r, "taken", Create(), WithRegister(local.Memory()), WithOpenResources(), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(context.Background())
		opts := []Option{clock, WithNodePriority(-1 << 62), WithRegister(local.Memory())}
		server, err := NewServer(p, opts...)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() {
			defer server.Close()
			if err := server.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		first := func(name string) (root string, took time.Duration) {
			began := time.Now()
			topic, err := Open(ctx, q, name, clock)
			if err != nil {
				t.Fatal(err)
			}
			h, err := topic.Lock(ctx, "crane")
			if err != nil {
				t.Fatal(err)
			}
			took = time.Since(began)
			_ = h.Unlock()
			defer topic.Close(ctx)
			return topic.Status().Root.ID, took
		}
		if root, took := first("new"); root != "node" || took >= LAN().JoinWait {
			t.Errorf("the first use of a lock takes %v, and %q is its root", took, root)
		}
		if root, _ := first("taken"); root != "stranger" {
			t.Errorf("%q is the root of a lock that another one has created", root)
		}
	})
}

// A root that stops because of another one says that both may have let somebody in, but only if it has.
func TestRootThatStopsSaysWhatItDid(t *testing.T) {
	for _, grants := range []bool{false, true} {
		inVirtualTime(t, func(t *testing.T, w *world) {
			ctx := context.Background()
			p, cable := w.join("first")
			q, _ := w.join("second")
			log := &capture.Text{}
			first, err := Open(ctx, p, "t", Create(), WithRegister(local.Memory()), WithOpenResources(), w.clock, WithLogger(log.Logger()))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if grants {
				if _, err := first.Lock(ctx, "crane"); err != nil {
					t.Fatal(err)
				}
			}
			cable.Cut()
			second, err := Open(ctx, q, "t", Create(), WithRegister(local.Memory()), WithOpenResources(), w.clock)
			if err != nil {
				t.Fatal(err)
			}
			cable.Restore()
			time.Sleep(10 * time.Second)
			if says := log.Has("both may have let somebody in"); says != grants {
				t.Errorf("it granted something: %v, and says %s", grants, log)
			}
			w.killed.Go(func() { _ = first.Close(ctx); _ = p.Close(ctx); _ = second.Close(ctx); _ = q.Close(ctx) })
		})
	}
}
