package main

import (
	"context"
	"iter"
	"time"
)

// quiet is how long nothing must come before what is retained counts as read. A
// broker sends it at once after the subscription but never says that it is done.
const quiet = 250 * time.Millisecond

// longest bounds the reading where changes never pause.
const longest = 3 * time.Second

// snapshot gives to add what a sequence yields until it pauses for so long, or
// until it has gone on for longest. The sequence must end with its context.
func snapshot[T any](ctx context.Context, pause time.Duration, sequence func(context.Context) iter.Seq2[T, error], add func(T)) error {
	reading, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	timer := time.AfterFunc(pause, cancel)
	defer timer.Stop()
	for item, err := range sequence(reading) {
		if reading.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		add(item)
		timer.Reset(pause)
	}
	return context.Cause(ctx)
}
