package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
	"padme/qosmutex"
)

// Observer fills a History from the broker, over a connection of its own. It is
// no member of the lock topic.
type Observer struct {
	*History
	p      *pubsub.Participant
	frames *pubsub.Reader[camera.Frame]
	cancel context.CancelFunc
	wg     sync.WaitGroup

	frequencies []string

	mu      sync.Mutex
	states  map[string]qosmutex.State
	root    string
	models  string        // in force, by the latest view of this run
	changed chan struct{} // closed and replaced with each event or state
	errs    []error
}

// Start begins to observe the run at the broker. It returns when the states of
// the frequencies are known; the lock topic must have been created. The options are for
// its participant.
func Start(ctx context.Context, url string, frequencies []string, options ...pubsub.Option) (*Observer, error) {
	p, err := scenario.Join(ctx, false, url, scenario.Observer, options...)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	o := &Observer{
		History: NewHistory(), p: p, cancel: cancel, frequencies: frequencies,
		states: map[string]qosmutex.State{}, changed: make(chan struct{}),
	}
	if err := o.start(ctx, running); err != nil {
		// Not by ctx, which may be what ended the start.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, o.Close(closing))
	}
	return o, nil
}

func (o *Observer) start(ctx, running context.Context) error {
	_, err := o.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", scenario.LockTopic, "view"}, o.view)
	if err != nil {
		return err
	}
	if o.frames, err = camera.NewReader(ctx, o.p); err != nil {
		return err
	}
	o.wg.Go(func() { o.watchEvents(running) })
	o.wg.Go(func() { o.watchStates(running) })
	o.wg.Go(func() { o.watchFrames(running) })
	o.wg.Go(func() { o.watchPresence(running) })
	if err := o.await(ctx, func() bool { return len(o.states) == len(o.frequencies) }); err != nil {
		return fmt.Errorf("the observer does not see the states of all frequencies %q: %w", o.frequencies, err)
	}
	return nil
}

// view takes the models in force from the published view, in case the event that
// tells of a change goes unseen. What is retained may be of an earlier run. It must not
// block.
func (o *Observer) view(m pubsub.RawMessage) {
	var v qosmutex.View
	if json.Unmarshal(m.Payload, &v) == nil {
		if !m.Retained {
			o.View(time.Now(), v.Models)
		}
		o.update(func() {
			if o.root = v.Root; !m.Retained {
				o.models = v.Models
			}
		})
	}
}

// Root returns which participant the latest view calls the root; empty: none yet.
func (o *Observer) Root() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.root
}

// InForce returns the models of the latest view of this run; empty: none has come yet.
func (o *Observer) InForce() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.models
}

func (o *Observer) watchEvents(ctx context.Context) {
	for e, err := range qosmutex.WatchEvents(ctx, o.p, scenario.LockTopic) {
		if err != nil {
			o.fail(err)
			continue
		}
		o.Event(e)
		o.update(func() {})
	}
}

func (o *Observer) watchStates(ctx context.Context) {
	for s, err := range qosmutex.WatchStates(ctx, o.p, scenario.LockTopic) {
		if err != nil {
			o.fail(err)
			continue
		}
		// A broker may have kept the states of another run's frequencies.
		if slices.Contains(o.frequencies, s.Resource) {
			o.update(func() { o.states[s.Resource] = s })
		}
	}
}

func (o *Observer) watchFrames(ctx context.Context) {
	for sample, err := range o.frames.Samples(ctx) {
		if err != nil {
			o.fail(err)
			continue
		}
		if sample.Info.Valid {
			o.Frame(sample.Data.Frequency, sample.Data.Fence)
		}
	}
}

func (o *Observer) watchPresence(ctx context.Context) {
	for peer, err := range o.p.Peers(ctx) {
		if err != nil {
			o.fail(err)
			continue
		}
		o.Presence(peer.ID, peer.Incarnation, peer.Alive, time.Now())
	}
}

// update makes a change and wakes whoever awaits one.
func (o *Observer) update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *Observer) fail(err error) { o.update(func() { o.errs = append(o.errs, err) }) }

// await returns when cond holds, an observation failed, or ctx ends.
func (o *Observer) await(ctx context.Context, cond func() bool) error {
	for {
		o.mu.Lock()
		ok, changed, err := cond(), o.changed, errors.Join(o.errs...)
		o.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// States returns the latest published state of each frequency, in order of name.
func (o *Observer) States() []qosmutex.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]qosmutex.State, 0, len(o.states))
	for _, s := range o.states {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b qosmutex.State) int { return strings.Compare(a.Resource, b.Resource) })
	return all
}

// Settle waits until the given number of entries has been seen and all have
// ended: events travel behind what they tell of. The error says that ctx ended
// first or that not all could be observed.
func (o *Observer) Settle(ctx context.Context, entries int) error {
	return o.await(ctx, func() bool { return o.settled(entries) })
}

// Close ends the observation and waits for it. The error tells what went unseen.
func (o *Observer) Close(ctx context.Context) error {
	o.cancel()
	o.wg.Wait()
	err := o.p.Close(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(append(o.errs, err)...)
}
