package qosmutex

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"padme/tests/cable"
)

// cutServer starts a server again that looks at what the process before it has left, and cuts it off that long
// after its start. restore gives its connection back.
func (k *keeper) cutServer(off time.Duration, holds bool) (s *Server, kill, restore func()) {
	k.t.Helper()
	s, kill = k.serve()
	topic := topicOf(k.t, s, "crane")
	if holds {
		if _, err := topic.Lock(context.Background(), "hook", WithNote([]byte("client 7"))); err != nil {
			k.t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
	kill()
	time.Sleep(time.Second)
	s, kill = k.serve()
	cable := k.cable
	time.Sleep(off)
	cable.Cut()
	return s, kill, cable.Restore
}

// alone fails if a hold of a server is valid beside another one.
func (k *keeper) alone(s *Server, other *Hold) {
	k.t.Helper()
	topic := topicOf(k.t, s, "crane")
	for _, h := range topic.Resumed() {
		if h.Check() == nil && other.Check() == nil {
			k.t.Errorf("fence %d goes on beside %d, which is valid for %v", h.Fence(), other.Fence(), other.Remaining())
		}
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h, err := topic.Lock(soon, "hook")
	if err == nil && other.Check() == nil {
		k.t.Errorf("fence %d beside %d, which is valid for %v", h.Fence(), other.Fence(), other.Remaining())
	}
}

// The next process has just looked who was the last root when its connection breaks. When it is back, another
// root has let somebody in, and both have just died, or live.
func TestNotesExpireWhileTheServerIsCutOff(t *testing.T) {
	for off := time.Duration(0); off <= 140*time.Millisecond; off += 20 * time.Millisecond {
		path := filepath.Join(t.TempDir(), "register")
		inVirtualTime(t, func(t *testing.T, w *world) {
			k := &keeper{t: t, w: w, path: path, holds: 5 * time.Second}
			s, kill, restore := k.cutServer(off, true)
			time.Sleep(time.Minute)
			h := k.heldElsewhere(LAN().TTL)
			restore()
			k.alone(s, h)
			w.killed.Go(func() { kill(); k.ends() })
		})
		inVirtualTime(t, func(t *testing.T, w *world) {
			k := &keeper{t: t, w: w, path: path + "2"}
			s, kill, restore := k.cutServer(off, true)
			time.Sleep(10*time.Second + 20*off)
			_, h, _, end := k.another()
			restore()
			k.alone(s, h)
			w.killed.Go(func() { kill(); end() })
		})
	}
}

// The next process goes on by its notes, but another root is there when it has a connection again, and for
// a minute. When that one has gone, the notes of long before count no more.
func TestNotesEndWithARootThatIsHeard(t *testing.T) {
	for away := time.Second; away <= 6*time.Second; away += time.Second / 2 {
		path := filepath.Join(t.TempDir(), "register")
		inVirtualTime(t, func(t *testing.T, w *world) {
			k := &keeper{t: t, w: w, path: path}
			s, kill, restore := k.cutServer(50*time.Millisecond, false)
			cable := k.cable
			time.Sleep(10 * time.Second)
			root, h, member, end := k.another()
			restore()
			time.Sleep(time.Minute)
			cable.Cut()
			time.Sleep(away)
			root.Cut()
			member.Cut()
			cable.Restore()
			k.alone(s, h)
			w.killed.Go(func() { kill(); end() })
		})
	}
}

// another is a root in a register of its own, a member of its tree, and that one's hold.
func (k *keeper) another() (root *cable.Cable, h *Hold, member *cable.Cable, end func()) {
	k.t.Helper()
	ctx := context.Background()
	p, root := k.w.join("other")
	other, err := Open(ctx, p, "crane", Create(), WithOpenResources(), k.w.clock)
	if err != nil {
		k.t.Fatal(err)
	}
	q, member := k.w.join("member")
	topic, err := Open(ctx, q, "crane", k.w.clock)
	if err != nil {
		k.t.Fatal(err)
	}
	if h, err = topic.Lock(ctx, "hook"); err != nil {
		k.t.Fatal(err)
	}
	return root, h, member, func() { _ = other.Close(ctx); _ = p.Close(ctx); _ = topic.Close(ctx); _ = q.Close(ctx) }
}

// A server that is told to end while it opens what the process before it has left leaves it to the next one.
func TestServerEndsWhileItOpens(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond} {
		path := filepath.Join(t.TempDir(), "register")
		inVirtualTime(t, func(t *testing.T, w *world) {
			ctx := context.Background()
			k := &keeper{t: t, w: w, path: path}
			s, kill := k.serve()
			if _, err := topicOf(t, s, "crane").Lock(ctx, "hook", WithNote([]byte("client 7"))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			kill()
			time.Sleep(200 * time.Millisecond)
			s, _ = k.serve()
			time.Sleep(after)
			if !s.LeavesHolds() {
				t.Errorf("after %v: it leaves nothing", after)
			}
			file := s.own
			_ = s.p.Close(ctx) // as whoever ends it then does first
			s.Close()
			_ = file.Close()
			time.Sleep(200 * time.Millisecond)
			s, kill = k.serve()
			if n := len(topicOf(t, s, "crane").Resumed()); n != 1 {
				t.Errorf("after %v: %d holds of 1 go on", after, n)
			}
			w.killed.Go(kill)
		})
	}
}
