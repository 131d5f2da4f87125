package qosmutex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// keeper starts servers that keep their locks in one file, one after another.
type keeper struct {
	id    string // of the servers; empty: gw
	t     *testing.T
	w     *world
	path  string
	cable *cable        // of the server
	holds time.Duration // how long heldElsewhere goes on
	ends  func()        // what was cut off
}

func (k *keeper) serve(opts ...Option) (s *Server, kill func()) {
	k.t.Helper()
	file, err := local.Open(k.path)
	if err != nil {
		k.t.Fatal(err)
	}
	p, cable := k.w.join(cmp.Or(k.id, "gw"))
	k.cable = cable
	s, end := listening(k.t, p, 0, append(opts, KeepIn(file), Resume(), k.w.clock)...)
	return s, func() {
		cable.cut()
		time.Sleep(10 * time.Millisecond) // the broker knows of it before the next one comes
		_ = file.Close()
		k.w.killed.Go(func() { end(); _ = p.Close(context.Background()) })
	}
}

// A server that keeps its locks in a file of its own is killed, and the next one goes on: with
// what it held for others, with its members and their holds, and without a wait.
func TestServerGoesOnWithItsOwnRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		k := keeper{t: t, w: w, path: path}
		s, kill := k.serve()
		if names := s.Resumes(); len(names) != 0 {
			t.Errorf("%q resume in a new file", names)
		}
		topic := topicOf(t, s, "crane")
		q, _ := w.join("member")
		defer q.Close(ctx)
		member, err := Open(ctx, q, "crane", w.clock)
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close(ctx)
		held, err := member.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		noted, err := topic.Lock(ctx, "winch", WithNote([]byte("of client 7")))
		if err != nil {
			t.Fatal(err)
		}
		topicOf(t, s, "idle")
		time.Sleep(10 * time.Second)
		for range 2 {
			kill()
			time.Sleep(time.Second)
			s, kill = k.serve()
			if names := s.Resumes(); !slices.Equal(names, []string{"crane"}) {
				t.Errorf("%q resume", names)
			}
			begun := time.Now()
			topic = topicOf(t, s, "crane")
			if resumed := topic.Resumed(); len(resumed) != 1 || resumed[0].Fence() != noted.Fence() || resumed[0].Check() != nil {
				t.Errorf("of the hold with fence %d there is %v", noted.Fence(), resumed)
			}
			if h, err := topicOf(t, s, "idle").Lock(ctx, "gate"); err != nil || h.Unlock() != nil {
				t.Error(err)
			}
			if took, most := time.Since(begun), time.Second; took > most {
				t.Errorf("it goes on after %v", took)
			}
			time.Sleep(10 * time.Second)
			if err := held.Check(); err != nil {
				t.Errorf("the hold of the member: %v", err)
			}
		}
		k.w.killed.Go(kill)
	})
}

// While a server was away, another one was the root, which then stands still. Notes of before that
// do not count: nobody is let in beside a hold of that one's members.
func TestServerDoesNotGoOnAfterAnotherRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		k := keeper{t: t, w: w, path: path}
		s, kill := k.serve()
		old, err := topicOf(t, s, "crane").Lock(ctx, "winch", WithNote(nil))
		if err != nil {
			t.Fatal(err)
		}
		kill()
		time.Sleep(time.Minute)

		p, cable := w.join("other")
		other, err := Open(ctx, p, "crane", Create(), WithOpenResources(), w.clock)
		if err != nil {
			t.Fatal(err)
		}
		q, _ := w.join("member")
		member, err := Open(ctx, q, "crane", w.clock)
		if err != nil {
			t.Fatal(err)
		}
		var before []*Hold
		for _, resource := range []string{"hook", "winch"} {
			h, err := member.Lock(ctx, resource)
			if err != nil {
				t.Fatal(err)
			}
			before = append(before, h)
		}
		cable.cut()
		s, kill = k.serve()
		topic := topicOf(t, s, "crane")
		if n := len(topic.Resumed()); n != 0 {
			t.Errorf("%d holds go on", n)
		}
		for _, h := range before {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			after, err := topic.Lock(soon, h.Resource())
			if cancel(); err != nil {
				t.Error(err)
				continue
			}
			if h.Check() == nil || after.Fence() <= max(h.Fence(), old.Fence()) {
				t.Errorf("%s: fence %d beside %d", h.Resource(), after.Fence(), h.Fence())
			}
		}
		if st := topic.Status(); st.Role != protocol.Root {
			t.Errorf("it is %v", st.Role)
		}
		w.killed.Go(func() {
			kill()
			_ = other.Close(ctx)
			_ = p.Close(ctx)
			_ = member.Close(ctx)
			_ = q.Close(ctx)
		})
	})
}

// heldElsewhere has another participant be the root of crane, with this TTL, and a member of it hold
// hook when both are cut off.
func (k *keeper) heldElsewhere(ttl time.Duration) *Hold {
	k.t.Helper()
	ctx := context.Background()
	p, root := k.w.join("other")
	other, err := Open(ctx, p, "crane", Create(), WithOpenResources(), WithTiming(LAN().WithTTL(ttl)), k.w.clock)
	if err != nil {
		k.t.Fatal(err)
	}
	q, cable := k.w.join("member")
	member, err := Open(ctx, q, "crane", k.w.clock)
	if err != nil {
		k.t.Fatal(err)
	}
	h, err := member.Lock(ctx, "hook")
	if err != nil {
		k.t.Fatal(err)
	}
	time.Sleep(k.holds)
	root.cut()
	cable.cut()
	k.ends = func() {
		_ = other.Close(ctx)
		_ = p.Close(ctx)
		_ = member.Close(ctx)
		_ = q.Close(ctx)
	}
	return h
}

// Once another one was the root, nothing that was noted before counts any more, whatever else
// happens: nobody is let in beside a hold of that one's members.
func TestNotesEndWithAnotherRoot(t *testing.T) {
	const long = 20 * time.Second
	for name, story := range map[string]func(k *keeper, s *Server, kill func()) (*Hold, *Server, func()){
		"killed while it waits": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(long)
			s, kill := k.serve()
			topicOf(k.t, s, "crane")
			time.Sleep(200 * time.Millisecond)
			kill()
			s, kill = k.serve()
			return h, s, kill
		},
		"let go of": func(k *keeper, s *Server, kill func()) (*Hold, *Server, func()) {
			if err := s.Remove(context.Background(), "crane"); err != nil {
				k.t.Fatal(err)
			}
			time.Sleep(time.Minute)
			h := k.heldElsewhere(long)
			topicOf(k.t, s, "crane")
			time.Sleep(200 * time.Millisecond)
			kill()
			s, kill = k.serve()
			return h, s, kill
		},
		"broker went back": func(k *keeper, s *Server, kill func()) (*Hold, *Server, func()) {
			view, err := json.Marshal(topicOf(k.t, s, "crane").View())
			if err != nil {
				k.t.Fatal(err)
			}
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(LAN().TTL)
			p, _ := k.w.join("backup")
			if err := p.PublishRaw(pubsub.Side, []string{"lock", "crane", "view"}, view, true); err != nil {
				k.t.Fatal(err)
			}
			_ = p.Close(context.Background())
			s, kill = k.serve()
			return h, s, kill
		},
		"killed while it waits, and the broker went back": func(k *keeper, s *Server, kill func()) (*Hold, *Server, func()) {
			view, err := json.Marshal(topicOf(k.t, s, "crane").View())
			if err != nil {
				k.t.Fatal(err)
			}
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(LAN().TTL)
			_, kill = k.serve()
			time.Sleep(200 * time.Millisecond)
			kill()
			p, _ := k.w.join("backup")
			if err := p.PublishRaw(pubsub.Side, []string{"lock", "crane", "view"}, view, true); err != nil {
				k.t.Fatal(err)
			}
			_ = p.Close(context.Background())
			s, kill = k.serve()
			return h, s, kill
		},
		"cut off, and its process goes on": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			k.cable.cut()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(long)
			kill()
			s, kill := k.serve()
			return h, s, kill
		},
		"cut off just before it ends": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			k.cable.cut()
			time.AfterFunc(LAN().TTL*4/10, kill) // its lease is not over yet
			k.holds = 0
			h := k.heldElsewhere(LAN().TTL)
			s, kill := k.serve()
			return h, s, kill
		},
		"longer TTL": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(long)
			s, kill := k.serve(WithTiming(LAN().WithTTL(long)))
			return h, s, kill
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "register")
			inVirtualTime(t, func(t *testing.T, w *world) {
				k := &keeper{t: t, w: w, path: path, holds: 5 * time.Second}
				s, kill := k.serve()
				topicOf(t, s, "crane")
				time.Sleep(long)
				h, s, kill := story(k, s, kill)
				soon, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				after, err := topicOf(t, s, "crane").Lock(soon, "hook")
				if err != nil || h.Check() == nil || after.Fence() <= h.Fence() {
					t.Errorf("fence %d beside %d, which is valid for %v: %v", after.Fence(), h.Fence(), h.Remaining(), err)
				}
				w.killed.Go(func() { kill(); k.ends() })
			})
		})
	}
}

// A lock keeps its TTL over restarts, whatever the command line says, until it is removed.
func TestRemovedLockGetsAnotherTTL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		k := keeper{t: t, w: w, path: path}
		s, kill := k.serve()
		topicOf(t, s, "crane")
		time.Sleep(10 * time.Second)
		kill()
		s, kill = k.serve(WithTiming(WAN()))
		if ttl := topicOf(t, s, "crane").Status().TTL; ttl != protocol.LAN().TTL {
			t.Errorf("TTL %v after a restart", ttl)
		}
		if err := s.Remove(context.Background(), "crane"); err != nil {
			t.Fatal(err)
		}
		if ttl := topicOf(t, s, "crane").Status().TTL; ttl != protocol.WAN().TTL {
			t.Errorf("TTL %v after it was removed", ttl)
		}
		w.killed.Go(kill)
	})
}

// A server is cut off, another one is the root meanwhile, and vanishes as the first one comes back: that
// lets nobody in beside a hold of the other's members, whose TTL may be longer.
func TestServerThatComesBackWaitsForAnotherRoot(t *testing.T) {
	for _, ttl := range []time.Duration{LAN().TTL, 20 * time.Second} {
		for i, away := range []time.Duration{8 * time.Second, 16 * time.Second, 20 * time.Second} {
			inVirtualTime(t, func(t *testing.T, w *world) {
				p, cable := w.join("gw")
				s, end := listening(t, p, time.Duration(i)*25*time.Minute, w.clock)
				topicOf(t, s, "crane")
				time.Sleep(20 * time.Second)
				cable.cut()
				time.Sleep(away)
				k := &keeper{t: t, w: w}
				h := k.heldElsewhere(ttl)
				cable.restore()
				soon, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				after, err := topicOf(t, s, "crane").Lock(soon, "hook")
				if err != nil || h.Check() == nil || after.Fence() <= h.Fence() {
					t.Errorf("away for %v: fence %d beside %d, which is valid for %v: %v", away, after.Fence(), h.Fence(), h.Remaining(), err)
				}
				w.killed.Go(func() { end(); _ = p.Close(context.Background()); k.ends() })
			})
		}
	}
}

// While a root does not know yet who holds, a lock is not removed: its TTL would be forgotten, and
// somebody let in beside a member that cannot report.
func TestLockIsNotRemovedWhileItsRootWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		k := &keeper{t: t, w: w, path: path}
		long := WithTiming(LAN().WithTTL(20 * time.Second))
		s, kill := k.serve(long)
		topicOf(t, s, "crane")
		q, cable := w.join("member")
		member, err := Open(ctx, q, "crane", w.clock)
		if err != nil {
			t.Fatal(err)
		}
		h, err := member.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cable.cut()
		kill()
		s, kill = k.serve()
		topicOf(t, s, "crane")
		for used := new(InUseError); ; time.Sleep(time.Second) {
			err := s.Remove(ctx, "crane")
			if err == nil {
				break
			}
			if !errors.As(err, &used) {
				t.Fatal(err)
			}
		}
		if h.Check() == nil {
			t.Errorf("removed while a hold is valid for %v", h.Remaining())
		}
		w.killed.Go(func() { kill(); _ = member.Close(ctx); _ = q.Close(ctx) })
	})
}

// A server that was started with a longer TTL than the record has beats as the record says from the
// start, and does not lose its lease before its second heartbeat.
func TestServerBeatsAsTheRecordSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		k := &keeper{t: t, w: w, path: path}
		s, kill := k.serve()
		topicOf(t, s, "crane")
		time.Sleep(10 * time.Second)
		kill()
		s, kill = k.serve(WithTiming(WAN()))
		topic := topicOf(t, s, "crane")
		for range 60 {
			begun := time.Now()
			h, err := topic.Lock(context.Background(), "hook")
			if err != nil || h.Unlock() != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 200*time.Millisecond {
				t.Errorf("it was had after %v", took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.killed.Go(kill)
	})
}

// Who ends a server as in a crash must lose nothing by that: not where it only has the role of servers
// through another root, which somebody would have to wait for.
func TestServerLeavesHolds(t *testing.T) {
	dir := t.TempDir()
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		k := &keeper{t: t, w: w, path: filepath.Join(dir, "first")}
		first, kill := k.serve()
		topicOf(t, first, servedBy)
		k = &keeper{t: t, w: w, path: filepath.Join(dir, "second"), id: "second"}
		second, end := k.serve()
		is := func(s *Server, want bool, when string) {
			t.Helper()
			if got := s.LeavesHolds(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		is(first, true, "the root of servers")
		if _, err := topicOf(t, second, servedBy).Lock(ctx, "crane", WithNote([]byte("role"))); err != nil {
			t.Fatal(err)
		}
		topicOf(t, second, "ramp")
		is(second, false, "with a role through another root")
		ramp, err := topicOf(t, second, "ramp").Lock(ctx, "hook", WithNote([]byte("client")))
		if err != nil {
			t.Fatal(err)
		}
		is(second, true, "with a hold as the root")
		if err := ramp.Unlock(); err != nil {
			t.Fatal(err)
		}
		is(second, false, "without it")
		topicOf(t, first, "gate")
		if _, err := topicOf(t, second, "gate").Lock(ctx, "hook", WithNote([]byte("client"))); err != nil {
			t.Fatal(err)
		}
		is(second, true, "with a hold through another root")
		w.killed.Go(func() { end(); kill() })
	})
}
