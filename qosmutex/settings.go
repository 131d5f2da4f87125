package qosmutex

import (
	"context"
	"fmt"
	"time"

	"padme/qosmutex/padme"
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
	in := protocol.Input{Kind: protocol.SetModels, Models: m}
	err := t.propose(ctx, &in, func(s *protocol.Settings) bool { return s.Models == m })
	if ctx.Err() != nil && err != nil {
		return interrupted(ctx, "models "+m.String()+" of lock topic "+t.name)
	}
	return err
}

// wanted is what this participant asks for: the parts that were given name it.
func (o *options) wanted(by string) protocol.Settings {
	s := protocol.Settings{Models: o.models, Resources: o.resources, Open: o.open}
	if o.givenModels {
		s.ModelsBy = by
	}
	if o.givenResources {
		s.ResourcesBy = by
	}
	return s
}

// declare puts what was given in the place of defaults.
func (t *Topic) declare(ctx context.Context) error {
	if t.algorithm.Name != padme.Algorithm.Name {
		return nil
	}
	wanted := t.wanted(t.self.ID)
	in := protocol.Input{Kind: protocol.Declare, Lease: &protocol.Lease{Settings: wanted}}
	return t.propose(ctx, &in, func(s *protocol.Settings) bool {
		return (wanted.ModelsBy == "" || s.ModelsBy != "") && (wanted.ResourcesBy == "" || s.ResourcesBy != "")
	})
}

// propose feeds in to the machine until the settings in force are as done says.
func (t *Topic) propose(ctx context.Context, in *protocol.Input, done func(*protocol.Settings) bool) error {
	// A proposal is lost when the participant moves in the tree at that moment.
	again := time.NewTicker(time.Duration(t.timing.TTL))
	defer again.Stop()
	for due := true; ; {
		t.mu.Lock()
		if due && !t.ended && !t.closing {
			_ = t.step(*in)
		}
		ready, changed := done(&t.status.Settings), t.changed
		t.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
			due = false
		case <-again.C:
			due = true
		case <-t.ctx.Done():
			return t.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
