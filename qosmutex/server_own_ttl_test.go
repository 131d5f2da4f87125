package qosmutex

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

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
				cable.Cut()
				time.Sleep(away)
				k := &keeper{t: t, w: w}
				h := k.heldElsewhere(ttl)
				cable.Restore()
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
		cable.Cut()
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
