package qosmutex_test

import (
	"context"
	"errors"
	"testing"

	"padme/qosmutex"
)

// A gateway retains the token for its clients.
func TestClientsEnterOnATokenThatTheirGatewayRetains(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		ctx := context.Background()
		if err := crane.Configure(ctx, qosmutex.WithModels(qosmutex.Models{Release: qosmutex.Retain})); err != nil {
			t.Fatal(err)
		}
		g := s.serve("gw")
		defer g.stop()
		a, b := s.client("a", "crane"), s.client("b", "crane")
		defer a.close()
		defer b.close()
		var last uint64
		enter := func(of qosmutex.Locker, while func()) {
			t.Helper()
			h := s.lock(of, "hook")
			if h.Fence() <= last || h.Check() != nil {
				t.Errorf("fence %d after %d: %v", h.Fence(), last, h.Check())
			}
			last = h.Fence()
			while()
			s.unlock(h)
		}
		busy := func() {
			t.Helper()
			for _, other := range []qosmutex.Locker{b.Client, crane} {
				if _, err := other.TryLock(ctx, "hook"); !errors.Is(err, qosmutex.ErrBusy) {
					t.Errorf("TryLock beside a holder: %v", err)
				}
			}
		}
		for range 3 {
			for range 10 {
				enter(a.Client, func() {})
				enter(b.Client, func() {})
			}
			enter(a.Client, busy)
			enter(crane, func() {})
		}
		if n := crane.Status().Counters.Recalls; n == 0 {
			t.Error("nothing was recalled: the gateway did not retain the token")
		}
	})
}
