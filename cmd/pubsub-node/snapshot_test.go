package main

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"padme/internal/wait"
	"padme/tests/bubble"
)

// slowBroker tells what it retains after a while, and answers whatever it was asked later after
// that.
func slowBroker(after time.Duration, retained ...string) (reading, func(context.Context) iter.Seq2[string, error]) {
	begun := time.Now()
	r := reading{quiet, func(ctx context.Context) error {
		if !wait.Sleep(ctx, max(0, after-time.Since(begun))+time.Millisecond) {
			return ctx.Err()
		}
		return nil
	}, 10 * time.Second}
	return r, func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			if !wait.Sleep(ctx, after-time.Since(begun)) {
				return
			}
			for _, s := range retained {
				if !yield(s, nil) {
					return
				}
			}
			<-ctx.Done()
		}
	}
}

// However long a busy broker takes, all that it retains is read, and no time is lost with one
// that is not busy.
func TestASnapshotIsWhole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for after, most := range map[time.Duration]time.Duration{
			time.Millisecond:       300 * time.Millisecond,
			200 * time.Millisecond: 500 * time.Millisecond,
			time.Second:            2 * time.Second,
			9 * time.Second:        9100 * time.Millisecond,
		} {
			var got []string
			begun := time.Now()
			r, sequence := slowBroker(after, "a", "b")
			if err := snapshot(t.Context(), r, sequence, func(s string) { got = append(got, s) }); err != nil || !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("after %v: %v, error %v", after, got, err)
			}
			if took := time.Since(begun); took > most {
				t.Errorf("after %v it took %v", after, took)
			}
		}
	})
}

// A snapshot ends where changes do not, and where the broker does not answer.
func TestASnapshotEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, _ := slowBroker(0)
		begun, n := time.Now(), 0
		endless := func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for wait.Sleep(ctx, 100*time.Millisecond) && yield("x", nil) {
				}
			}
		}
		if err := snapshot(t.Context(), r, endless, func(string) { n++ }); err != nil || n < 25 || time.Since(begun) > longest+r.pause {
			t.Errorf("%d changes in %v, error %v", n, time.Since(begun), err)
		}

		r, silent := slowBroker(time.Hour)
		begun = time.Now()
		if err := snapshot(t.Context(), r, silent, func(string) {}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 11*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, silent = slowBroker(time.Hour)
		if err := snapshot(ctx, r, silent, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled: %v", err)
		}
	})
}
