package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// Addresses take turns, and so do the names at one; whoever leaves loses its place.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		if err := all.take(t.Context(), "first", ""); err != nil {
			t.Fatal(err)
		}
		var served []string
		leaving, leave := context.WithCancel(t.Context())
		wait := func(ctx context.Context, address, name string) {
			go func() {
				if err := all.take(ctx, address, name); err == nil {
					served = append(served, address+"/"+name)
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		for i := range 100 {
			wait(leaving, "stranger", fmt.Sprint("gone", i))
		}
		for range 3 {
			wait(t.Context(), "stranger", "guess")
		}
		wait(t.Context(), "stranger", "alice")
		wait(t.Context(), "home", "bob")
		leave()
		synctest.Wait()
		for range 5 {
			all.give()
			synctest.Wait()
		}
		if want := []string{"stranger/guess", "home/bob", "stranger/alice", "stranger/guess", "stranger/guess"}; !slices.Equal(served, want) {
			t.Errorf("served %q, want %q", served, want)
		}
		all.give()
		if all.free != 1 || len(all.order) != 0 || len(all.at) != 0 {
			t.Errorf("left behind: %+v", all)
		}
	})
}

// A turn that comes while its waiter leaves is passed on.
func TestTurnIsNotLost(t *testing.T) {
	all := newTurns(1)
	for range 200 {
		if err := all.take(t.Context(), "a", ""); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- all.take(ctx, "b", "") }()
		go cancel()
		all.give()
		if err := <-done; err == nil {
			all.give()
		}
		cancel()
	}
	if all.free != 1 {
		t.Errorf("%d free", all.free)
	}
}
