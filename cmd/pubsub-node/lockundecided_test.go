package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"padme/qosmutex"
)

// mute is a server that is there and decides nothing.
type mute struct{ qosmutex.Locker }

func (mute) TryLock(ctx context.Context, _ string, _ ...qosmutex.LockOption) (*qosmutex.Hold, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (mute) Warning(string) string { return "" }

func TestNoWaitEndsWithoutADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &lockFlags{noWait: true}
		_, err := f.acquire(t.Context(), &session{}, nil, mute{}, "default")
		err = f.explain(t.Context(), err, "crane", "default")
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitUnavailable {
			t.Errorf("%v", err)
		}
	})
}
