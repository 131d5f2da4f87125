package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
)

// quiet is how long nothing must come before what is retained counts as read. A
// broker sends it at once after the subscription but never says that it is done.
const quiet = 250 * time.Millisecond

// longest bounds the reading where changes never pause.
const longest = 3 * time.Second

// delivery is for what the reader of a connection has handed over to be taken.
const delivery = 20 * time.Millisecond

// reading is how what a broker retains is read.
type reading struct {
	pause     time.Duration               // in which nothing must come
	roundTrip func(context.Context) error // to the broker and back, on the connection that is read
	timeout   time.Duration               // of a round trip
}

func readingOf(p *pubsub.Participant, pause, timeout time.Duration) reading {
	return reading{pause, func(ctx context.Context) error { return roundTrip(ctx, p) }, timeout}
}

func (s *session) reading(p *pubsub.Participant) reading { return readingOf(p, quiet, s.timeout) }

// pause is longer than quiet where connecting, a few round trips, took long.
func (s *session) pause() time.Duration { return quiet + s.joined }

// roundTrip returns when the broker has granted a subscription that everybody may have. What
// it was asked before on the connection is answered then, too.
func roundTrip(ctx context.Context, p *pubsub.Participant) error {
	stop, err := p.SubscribeRaw(ctx, pubsub.Main, []string{"presence", p.ID()}, func(pubsub.RawMessage) {})
	switch {
	case errors.Is(err, pubsub.ErrRefused): // is an answer
		return nil
	case err != nil:
		return fmt.Errorf("the broker was asked what it retains, and has not answered: %w", err)
	}
	stop()
	return nil
}

// snapshot gives to add what a sequence yields until the broker has nothing more to tell, or
// until it has gone on for longest. The sequence must end with its context.
func snapshot[T any](ctx context.Context, r reading, sequence func(context.Context) iter.Seq2[T, error], add func(T)) error {
	during, cancel := context.WithCancel(ctx)
	var latest atomic.Int64 // when something came, as by time.Since(begun)
	begun := time.Now()
	settled := make(chan struct{})
	var unanswered error
	go func() {
		defer close(settled)
		unanswered = r.settle(during, begun, &latest)
		cancel()
	}()
	defer func() { cancel(); <-settled }()
	for item, err := range sequence(during) {
		if during.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		add(item)
		latest.Store(int64(time.Since(begun)))
	}
	cancel()
	<-settled
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return unanswered
}

// settle returns when nothing has come for a pause, and during two round trips. On a busy
// machine a pause alone says nothing: the broker, or our own subscription, may be late.
func (r reading) settle(ctx context.Context, begun time.Time, latest *atomic.Int64) error {
	for trips := 0; trips < 2; {
		seen := latest.Load()
		if rest := time.Duration(seen) + r.pause - time.Since(begun); rest > 0 && time.Since(begun) < longest {
			if !wait.Sleep(ctx, rest) {
				return nil
			}
			trips = 0
			continue
		}
		answer, cancel := context.WithTimeout(ctx, r.timeout)
		err := r.roundTrip(answer)
		cancel()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !wait.Sleep(ctx, delivery) || time.Since(begun) >= longest {
			return nil
		}
		if trips++; latest.Load() != seen {
			trips = 0
		}
	}
	return nil
}
