package qosmutex

import (
	"context"
	"fmt"
	"slices"
	"time"

	"padme/qosmutex/protocol"
)

// SetPriority changes the participant's priority: it determines the participant's place in
// the tree and applies to those of its waiting requests that have no WithPriority. Smaller
// is more important. It does not block; the tree follows after Timing.MoveAfter. The error
// wraps ErrClosed.
func (t *Topic) SetPriority(priority int64) error {
	if err := t.made(); err != nil {
		return err
	}
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
			t.report(h.event(EventReprioritized, time.Now()))
		}
	}
	return t.step(protocol.Input{Kind: protocol.Prioritize, Priority: priority})
}

// Configure changes the settings of a topic that is in use: the models, with WithModels,
// and the resources, with WithResources and WithOpenResources. It replaces earlier
// declarations of any participant, and returns when the change is in force at this
// participant and in the record of the topic. Settings without an option stay as they are.
// If two participants change the same setting at the same time, one of them prevails.
//
// A holder of a resource that is no longer declared keeps it until its hold ends. Requests
// that wait for it, and later ones, are refused with ErrUndeclared. All other requests
// continue to wait. If the resource is declared again, its fences continue.
//
// If Configure has not returned, the change may be lost together with the root. Errors wrap
// ErrInvalidConfig, ErrTimeout or ErrCanceled (and context.Cause), or ErrClosed.
func (t *Topic) Configure(ctx context.Context, opts ...Option) error {
	wanted, err := t.wish(opts)
	if err != nil {
		return err
	}
	in := protocol.Input{Kind: protocol.Change, Lease: &protocol.Lease{Settings: wanted}}
	err = t.propose(ctx, &in, func(s *protocol.Settings) bool {
		return declared(s, &wanted) && (wanted.ModelsBy == "" || s.Models == wanted.Models) && (wanted.ResourcesBy == "" || sameResources(s, &wanted))
	})
	return t.proposalError(ctx, err)
}

// Declare declares models or resources as the same options of Open do: it replaces only a
// default. Errors wrap ErrConflict if others were declared before, and are otherwise those
// of Configure.
func (t *Topic) Declare(ctx context.Context, opts ...Option) error {
	wanted, err := t.wish(opts)
	if err != nil {
		return err
	}
	if err := t.declare(ctx, &wanted); err != nil {
		return t.proposalError(ctx, err)
	}
	return t.checkConflict(&wanted)
}

// wish is what options say that are for Configure.
func (t *Topic) wish(opts []Option) (protocol.Settings, error) {
	if err := t.made(); err != nil {
		return protocol.Settings{}, err
	}
	o, err := settingsOf(opts)
	switch {
	case err != nil:
		return protocol.Settings{}, err
	case o.givenTiming:
		return protocol.Settings{}, fmt.Errorf("%w: the TTL of lock topic %q never changes: open another one with WithTiming", ErrInvalidConfig, t.name)
	case len(opts) == 0:
		return protocol.Settings{}, fmt.Errorf("%w: lock topic %q: give WithModels, WithResources or WithOpenResources", ErrInvalidConfig, t.name)
	case o.givenResources && len(o.resources) == 0 && !o.open:
		return protocol.Settings{}, fmt.Errorf("%w: lock topic %q would be left without a resource: name one, or give WithOpenResources", ErrInvalidConfig, t.name)
	}
	s := o.wanted(t.self.ID)
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("%w: lock topic %q: %s", ErrInvalidConfig, t.name, plain(err))
	}
	return s, nil
}

// proposalError gives an error of propose its kind.
func (t *Topic) proposalError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return interrupted(ctx, fmt.Sprintf("settings of lock topic %q", t.name))
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

// declare puts the parts of wanted that name this participant in the place of defaults.
func (t *Topic) declare(ctx context.Context, wanted *protocol.Settings) error {
	in := protocol.Input{Kind: protocol.Declare, Lease: &protocol.Lease{Settings: *wanted}}
	return t.propose(ctx, &in, func(s *protocol.Settings) bool { return declared(s, wanted) })
}

// declared reports whether somebody has declared all parts that are wanted.
func declared(s, wanted *protocol.Settings) bool {
	return (wanted.ModelsBy == "" || s.ModelsBy != "") && (wanted.ResourcesBy == "" || s.ResourcesBy != "")
}

func sameResources(a, b *protocol.Settings) bool {
	return a.Open == b.Open && slices.Equal(a.Resources, b.Resources)
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
