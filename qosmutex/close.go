package qosmutex

import (
	"context"
	"time"

	"padme/qosmutex/protocol"
)

// departWait is how long Close waits for an orderly leave.
const departWait = time.Second

// Close releases this participant's holds, cancels its requests, leaves the tree and ends
// the topic. It waits, as long as ctx allows and at most about a second, until the others
// have acknowledged that. If they do not answer, it sends a farewell and ends the topic
// anyway. If not even that arrives, they notice after the TTL. Waiting calls return an
// error that wraps ErrClosed. Close may be called again, and then returns nil.
func (t *Topic) Close(ctx context.Context) error {
	if t == nil || t.p == nil {
		return nil
	}
	t.closeWithin(ctx, departWait)
	return nil
}

func (t *Topic) closeWithin(ctx context.Context, wait time.Duration) {
	t.closeOnce.Do(func() {
		t.depart()
		t.awaitDeparted(ctx, wait)
		t.departAtOnce()
		t.end(t.closedError())
		<-t.published
		t.metrics.unregister()
	})
}

// depart gives everything back and asks the machine to leave.
func (t *Topic) depart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closing = true
	if t.ended || t.machine == nil || t.p.Err() != nil { // with the participant it ends as in a crash
		return
	}
	for _, h := range t.calls {
		if h.phase.Load() == waiting {
			delete(t.calls, h.ref)
			t.report(eventRecord{name: EventWithdrawn, resource: h.resource, ref: h.ref, priority: h.priority, at: time.Now(), reason: "closed"})
			_ = t.step(protocol.Input{Kind: protocol.Withdraw, Ref: h.ref, Resource: h.resource})
			t.fail(h, t.closedError())
		} else {
			t.leave(h, t.clock())
		}
	}
	_ = t.step(protocol.Input{Kind: protocol.Depart})
}

// departAtOnce gives up waiting for an orderly leave. The machine says goodbye all the
// same, so that no one waits until the session of this participant has expired.
func (t *Topic) departAtOnce() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && t.machine != nil && t.p.Err() == nil && t.status.Role != protocol.Departed {
		_ = t.step(protocol.Input{Kind: protocol.Depart})
	}
}

func (t *Topic) awaitDeparted(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = t.await(ctx, func() bool { return t.machine == nil || t.status.Role == protocol.Departed })
}

// await returns nil once cond, which is called under mu, holds. It returns an
// error when ctx or the topic ends.
func (t *Topic) await(ctx context.Context, cond func() bool) error {
	for {
		t.mu.Lock()
		ok, changed := cond(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return t.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end ends the topic for good: what is still held is lost, waiting requests
// end, and no handler or timer does anything once it returns. Only the publisher is left,
// to publish what is to be told.
func (t *Topic) end(err error) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.ended, t.err = true, err
	for _, h := range t.calls {
		if h.phase.Load() == waiting {
			t.fail(h, err)
		} else {
			t.lose(h)
		}
	}
	clear(t.calls)
	clear(t.inside)
	stops := t.stops
	t.stops = nil
	t.finish()
	t.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	t.alarms.endUse(&t.alarm)
	t.aside.Wait()
}
