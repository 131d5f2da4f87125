package qosmutex

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/cable"
)

// keeper starts servers that keep their locks in one file, one after another.
type keeper struct {
	id    string // of the servers; empty: gw
	t     *testing.T
	w     *world
	path  string
	cable *cable.Cable  // of the server
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
		cable.Cut()
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
		cable.Cut()
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
	root.Cut()
	cable.Cut()
	k.ends = func() {
		_ = other.Close(ctx)
		_ = p.Close(ctx)
		_ = member.Close(ctx)
		_ = q.Close(ctx)
	}
	return h
}

// backup returns what has the broker retain again what the last root says of itself now.
func (k *keeper) backup(s *Server) (goBack func()) {
	k.t.Helper()
	view, err := json.Marshal(topicOf(k.t, s, "crane").View())
	if err != nil {
		k.t.Fatal(err)
	}
	return func() {
		p, _ := k.w.join("backup")
		if err := p.PublishRaw(pubsub.Side, []string{"lock", "crane", "view"}, view, true); err != nil {
			k.t.Fatal(err)
		}
		_ = p.Close(context.Background())
	}
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
			goBack := k.backup(s)
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(LAN().TTL)
			goBack()
			s, kill = k.serve()
			return h, s, kill
		},
		"killed while it waits, and the broker went back": func(k *keeper, s *Server, kill func()) (*Hold, *Server, func()) {
			goBack := k.backup(s)
			kill()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(LAN().TTL)
			_, kill = k.serve()
			time.Sleep(200 * time.Millisecond)
			kill()
			goBack()
			s, kill = k.serve()
			return h, s, kill
		},
		"cut off, and its process goes on": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			k.cable.Cut()
			time.Sleep(time.Minute)
			h := k.heldElsewhere(long)
			kill()
			s, kill := k.serve()
			return h, s, kill
		},
		"cut off just before it ends": func(k *keeper, _ *Server, kill func()) (*Hold, *Server, func()) {
			k.cable.Cut()
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
