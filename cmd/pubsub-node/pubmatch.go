package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"padme/pubsub"
)

// awaitReaders gives subscribers that are there already the time to answer, or
// waits for as many as --wait-matching says.
func (f *pubFlags) awaitReaders(ctx context.Context, p *pubsub.Participant, w *pubsub.Writer[document], s *session, name string) error {
	if f.readers > 0 {
		return f.awaitMatching(ctx, p, w, s.timeout, name)
	}
	short, cancel := context.WithTimeout(ctx, s.pause())
	defer cancel()
	if err := w.WaitMatched(short, 1); err != nil && short.Err() == nil {
		return err
	}
	return ctx.Err()
}

// awaitMatching waits for as many subscribers as --wait-matching says, and tells that it does,
// and which are there and do not count.
func (f *pubFlags) awaitMatching(ctx context.Context, p *pubsub.Participant, w *pubsub.Writer[document], timeout time.Duration, name string) error {
	missing := func(after string) string {
		return fmt.Sprintf("%d of %d subscribers of %q are there%s", len(w.Matched()), f.readers, name, after)
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if f.bounded {
		waiting, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	short, stop := context.WithTimeout(waiting, patience)
	defer stop()
	err := w.WaitMatched(short, f.readers)
	apart := ""
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		apart = unmatched(waiting, p, w)
		fmt.Fprintf(os.Stderr, "pubsub-node: waiting: %s\n", printable(missing("")+apart))
		err = w.WaitMatched(waiting, f.readers)
	}
	if err == nil || waiting.Err() == nil || ctx.Err() != nil {
		return err
	}
	remedy := ": start them"
	if apart != "" {
		remedy = ": start others"
	}
	return &exitError{exitTimeout, fmt.Errorf("%s%s%s, or give a longer --timeout", missing(fmt.Sprintf(" after %v", timeout)), apart, remedy)}
}

// unmatched names the subscribers that are there and get nothing from w, each with the reason;
// "" if there are none, or the broker does not say.
func unmatched(ctx context.Context, p *pubsub.Participant, w *pubsub.Writer[document]) string {
	endpoints, err := p.Endpoints(ctx)
	if err != nil {
		return ""
	}
	var alive []pubsub.Announcement // but for other writers
	for _, e := range endpoints {
		if e.Alive && (e.Kind == "reader" || e.GUID == w.GUID()) {
			alive = append(alive, e)
		}
	}
	var apart []string
	for _, m := range mismatches(alive) {
		apart = append(apart, fmt.Sprintf("%s by %s (it asks for %s, and pub offers %s)", m.Reader, m.Reason, m.Requested, m.Offered))
	}
	if len(apart) == 0 {
		return ""
	}
	return "; those that do not match: " + strings.Join(apart, ", ")
}

// tellUnreached says on standard error which subscribers get nothing from w, and why, once each.
func tellUnreached(ctx context.Context, w *pubsub.Writer[document], topic string) {
	told := map[pubsub.Event]bool{}
	for event, err := range w.Events(ctx) {
		if err != nil {
			return
		}
		text := ""
		switch e := event.(type) {
		case pubsub.IncompatibleQoS:
			text = fmt.Sprintf("no samples to %v: it asks for more %s than is offered: start it again to ask for less, see \"pubsub-node qos check\"", e.Peer, e.Policy)
		case pubsub.InconsistentTopic:
			text = fmt.Sprintf("no samples to %v: it reads %s from %q, not JSON documents as \"pubsub-node sub\" does: write with a program of its type, or to another topic", e.Peer, e.Type, topic)
		default:
			continue
		}
		if !told[event] {
			told[event] = true
			fmt.Fprintln(os.Stderr, "pubsub-node: "+printable(text))
		}
	}
}

// inBackground runs f until it is stopped. After that f has returned.
func inBackground(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() { cancel(); <-done }
}
