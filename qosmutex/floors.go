package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// earliest is the time before which this code did not exist: a clock that is
// behind it was not set, and fences that rest on it would go back.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fenceSlack is for entries that were made and not published before a root died.
const fenceSlack = 1 << 16

// floors are what a founder must be above.
type floors struct {
	fence, epoch uint64
	voters       int // of the view that the broker retains
}

// reconnectWait is within what members whose broker was gone are back: it is above
// the longest back-off of the client and its attempt to connect.
const reconnectWait = 45 * time.Second

// floors are microseconds of the wall clock, raised by what a former root left on
// the broker. That never authorises anything; it only raises.
func (t *Topic) floors(ctx context.Context) (floors, error) {
	now := time.Now()
	if now.Before(earliest) {
		return floors{}, fmt.Errorf("%w: the wall clock says %s: set it before founding lock topic %q, as fences start from it",
			ErrInvalidConfig, now.UTC().Format(time.DateTime), t.name)
	}
	micros := uint64(now.UnixMicro())
	f := floors{fence: micros, epoch: micros}
	var mu sync.Mutex
	raise := func(m pubsub.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		f.raise(m.Payload)
	}
	stop, err := t.subscribeAll(ctx, t.retained(), raise)
	defer stop()
	if err != nil {
		return floors{}, err
	}
	// Brokers send what they retain before anything that is published later.
	if err := t.barrier(ctx); err != nil {
		return floors{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	return f, nil
}

// refloor has the machine, which is about to found the topic again, told what it must
// be above by now. The caller holds mu, and the topic has not ended. An earlier reading
// that is still under way ends: it may wait for what was lost with the connection.
func (t *Topic) refloor() {
	t.stale()
	ctx, stop := context.WithCancel(t.ctx)
	t.stale = stop
	t.aside.Go(func() {
		defer stop()
		t.readAgain(ctx)
	})
}

// readAgain tells the machine what the broker remembers. The machine listens for longer
// than that takes; if it fails, the floors that it has rise by its own clock.
func (t *Topic) readAgain(ctx context.Context) {
	f, err := t.floors(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.log.Info("what the broker remembers of the topic could not be read", "topic", t.name, "error", err)
		return
	}
	in := protocol.Input{Kind: protocol.Floors, FenceFloor: f.fence, EpochFloor: f.epoch}
	if f.voters > 1 && !t.goOn { // since we were a member: they may be about to reconnect, and to elect
		in.Listen = protocol.Time(reconnectWait)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		_ = t.step(in)
	}
}

// retained are the topics that a founder reads. Some brokers return nothing that is
// retained for a wildcard, so declared resources are asked for by name; of others,
// the wall clock must do there.
func (t *Topic) retained() [][]string {
	all := [][]string{{"lock", t.name, "view"}, {"lock", t.name, "+", "state"}}
	t.mu.Lock()
	resources := slices.Concat(t.resources, t.status.Settings.Resources)
	t.mu.Unlock()
	slices.Sort(resources)
	for _, r := range slices.Compact(resources) {
		all = append(all, []string{"lock", t.name, r, "state"})
	}
	return all
}

// subscribeAll subscribes to all of them at once. stop is never nil.
func (t *Topic) subscribeAll(ctx context.Context, topics [][]string, handler func(pubsub.RawMessage)) (stop func(), err error) {
	stops, errs := make([]func(), len(topics)), make([]error, len(topics))
	var wg sync.WaitGroup
	for i, levels := range topics {
		wg.Go(func() { stops[i], errs[i] = t.p.SubscribeRaw(ctx, levels, handler) })
	}
	wg.Wait()
	return func() {
		for _, stop := range stops {
			if stop != nil {
				stop()
			}
		}
	}, errors.Join(errs...)
}

// raise believes a view or a state as far as it is plausible.
func (f *floors) raise(payload []byte) {
	var s struct {
		Epoch, Fence string
		Voters       []string
	}
	if json.Unmarshal(payload, &s) != nil {
		return
	}
	f.voters = max(f.voters, len(s.Voters))
	if fence := parseFence(s.Fence); fence > 0 {
		f.fence = max(f.fence, fence+fenceSlack)
	}
	if epoch, ok := parseEpoch(s.Epoch); ok && epoch.Number < maxFence {
		f.epoch = max(f.epoch, epoch.Number)
	}
}
