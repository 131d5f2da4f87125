package qosmutex

import (
	"context"
	"fmt"
	"time"

	"padme/qosmutex/protocol"
)

// SetPriority changes the participant's priority: its place in the tree and that
// of its waiting requests which had no WithPriority. Smaller is more important.
// It does not block; the tree follows after Timing.MoveAfter. The error wraps
// ErrClosed.
func (t *Topic) SetPriority(_ context.Context, priority int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return t.closedError()
	}
	if priority == t.priority {
		return nil
	}
	t.priority = priority
	for _, h := range t.calls {
		if h.phase.Load() == waiting && !h.fixed {
			h.priority = priority
			t.report(eventRecord{name: EventReprioritised, resource: h.resource, ref: h.ref, priority: priority, at: time.Now()})
		}
	}
	return t.step(protocol.Input{Kind: protocol.Prioritise, Priority: priority})
}

// SetModels changes the models of the whole topic while it runs, and returns when
// they are in force at this participant, and in the record of the topic. Requests that
// wait stay. A change that has not returned may be forgotten with its root. Errors wrap
// ErrInvalidConfig, ErrUnsupported with a static algorithm, ErrTimeout or
// ErrCancelled (and context.Cause), or ErrClosed.
func (t *Topic) SetModels(ctx context.Context, m Models) error {
	if err := WithModels(m)(new(options)); err != nil {
		return err
	}
	if t.algorithm.Static {
		return fmt.Errorf("%w: %q of lock topic %q has no models: they are PADME's", ErrUnsupported, t.algorithm.Name, t.name)
	}
	if t.proposeModels(m) {
		return nil
	}
	// A proposal is lost when the participant moves in the tree at that moment.
	again := time.NewTicker(time.Duration(t.timing.TTL))
	defer again.Stop()
	for {
		t.mu.Lock()
		done, changed := t.status.Settings.Models == m, t.changed
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
			t.proposeModels(m)
		case <-t.ctx.Done():
			return t.Err()
		case <-ctx.Done():
			return interrupted(ctx, "models "+m.String()+" of lock topic "+t.name)
		}
	}
}

// proposeModels reports whether m is in force.
func (t *Topic) proposeModels(m Models) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return false
	}
	if t.status.Settings.Models != m {
		_ = t.step(protocol.Input{Kind: protocol.SetModels, Models: m})
	}
	return t.status.Settings.Models == m
}
