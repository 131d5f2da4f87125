package qosmutex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// maxUnread bounds what waits for a watcher to read.
const maxUnread = 4096

// Queue returns the requests that wait for a resource, as the root last published them: the
// first 16, in the order of service. Errors wrap ErrUndeclared, ErrInvalidName, ErrClosed,
// or ErrTimeout or ErrCanceled (and context.Cause).
func (t *Topic) Queue(ctx context.Context, resource string) ([]Waiter, error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	t.mu.Lock()
	err := t.checkDeclared(resource)
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var latest State
	stop, err := t.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", t.name, resource, "state"}, func(m pubsub.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		if s, ok := parseState(m); ok {
			latest = s
		}
	})
	if err != nil {
		return nil, t.openError(ctx, err)
	}
	defer stop()
	if err := t.barrier(ctx); err != nil {
		return nil, t.openError(ctx, err)
	}
	mu.Lock()
	defer mu.Unlock()
	return latest.Queue, nil
}

// WatchEvents yields the events of a lock topic, or of all topics for "", from now on,
// until ctx or the loop ends. The participant need not be a member. An error is yielded in
// place of an event. One that wraps ErrMissed means that the loop was too slow and missed
// events; the iteration continues after it. Any other error is the last value.
func WatchEvents(ctx context.Context, p *pubsub.Participant, topic string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := newWatcher()
		levels, err := watchLevels(topic, "events")
		if err == nil {
			err = w.watch(ctx, p, levels, w.append, func(m pubsub.RawMessage) bool {
				events, _ := parseEvents(m.Levels[1], m.Payload, nil)
				for _, e := range events {
					if !yield(e, nil) {
						return false
					}
				}
				return true
			}, func(err error) bool { return yield(Event{}, err) })
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// WatchStates yields the retained state of each resource of a lock topic, or of all topics
// for "", and then each change, until ctx or the loop ends. The participant need not be a
// member. A slow loop sees the latest state of each resource, not every change. When a root
// clears the retained state of a resource that it does not know, that is yielded as
// StatusUnknown, without Root and Epoch. Errors are as for WatchEvents.
func WatchStates(ctx context.Context, p *pubsub.Participant, topic string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		w := newWatcher()
		levels, err := watchLevels(topic, "+", "state")
		if err == nil {
			latest := terms{}
			err = w.watch(ctx, p, levels, w.replace, func(m pubsub.RawMessage) bool {
				s, ok := parseState(m)
				if !ok {
					return true
				}
				if epoch, _ := parseEpoch(s.Epoch); s.Epoch != "" && !latest.credible(s.Topic, epoch, time.Now()) {
					return true // a root of the past; the present one will say so
				}
				return yield(s, nil)
			}, func(err error) bool { return yield(State{}, err) })
		}
		if err != nil {
			yield(State{}, err)
		}
	}
}

// termsEnd is longer than a root of the past can go on when there is
// another, with the longest preset of timing.
const termsEnd = 30 * time.Second

// terms are the latest epochs of which a watcher has heard, by lock topic.
type terms map[string]latestTerm

type latestTerm struct {
	epoch protocol.Epoch
	heard time.Time
}

// credible reports whether a state is of the latest epoch. One that has been silent
// while an earlier one goes on for so long was no root's: any member can forge one.
func (r terms) credible(topic string, epoch protocol.Epoch, now time.Time) bool {
	was := r[topic]
	if epoch.Compare(was.epoch) < 0 && now.Sub(was.heard) < termsEnd {
		return false
	}
	r[topic] = latestTerm{epoch, now}
	return true
}

func watchLevels(topic string, below ...string) ([]string, error) {
	if topic == "" {
		topic = "+"
	} else if err := checkName("lock topic", topic); err != nil {
		return nil, err
	}
	return append([]string{"lock", topic}, below...), nil
}

// watcher hands messages from the goroutine that reads from the network to a
// loop.
type watcher struct {
	mu     sync.Mutex
	unread []pubsub.RawMessage
	places map[[2]string]int // in unread, of a topic and resource
	missed int
	more   chan struct{}
}

func newWatcher() *watcher {
	return &watcher{more: make(chan struct{}, 1), places: map[[2]string]int{}}
}

// watch subscribes and calls each until ctx ends or one of the functions returns
// false.
func (w *watcher) watch(ctx context.Context, p *pubsub.Participant, levels []string, put func(pubsub.RawMessage),
	each func(pubsub.RawMessage) bool, fail func(error) bool,
) error {
	stop, err := p.SubscribeRaw(ctx, pubsub.Main, levels, func(m pubsub.RawMessage) {
		w.mu.Lock()
		defer w.mu.Unlock()
		put(m)
		select {
		case w.more <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return endOfWatch(ctx, err)
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Done():
			return fmt.Errorf("%w: participant %q has ended: %w", ErrClosed, p.ID(), p.Err())
		case <-w.more:
		}
		unread, missed := w.take()
		for _, m := range unread {
			if !each(m) {
				return nil
			}
		}
		if missed > 0 && !fail(fmt.Errorf("%w: %d messages were dropped: read faster", ErrMissed, missed)) {
			return nil
		}
	}
}

// endOfWatch makes the end of ctx the silent end of a loop.
func endOfWatch(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (w *watcher) take() ([]pubsub.RawMessage, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	unread, missed := w.unread, w.missed
	w.unread, w.missed = nil, 0
	clear(w.places)
	return unread, missed
}

func (w *watcher) append(m pubsub.RawMessage) {
	if len(w.unread) >= maxUnread {
		w.missed++
		return
	}
	w.unread = append(w.unread, m)
}

// replace keeps the latest message of each resource.
func (w *watcher) replace(m pubsub.RawMessage) {
	place := [2]string{m.Levels[1], m.Levels[2]}
	if i, ok := w.places[place]; ok {
		w.unread[i] = m
		return
	}
	if len(w.unread) < maxUnread { // else append drops it
		w.places[place] = len(w.unread)
	}
	w.append(m)
}

// parseEvents reads JSON lines and counts those that are no events of the topic. It skips
// lines that begin with boring, if that is not empty.
func parseEvents(topic string, payload, boring []byte) (events []Event, bad int) {
	for line := range bytes.Lines(payload) {
		if line = bytes.TrimSpace(line); len(line) == 0 || len(boring) > 0 && bytes.HasPrefix(line, boring) {
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil || e.Event == "" || e.Topic != topic {
			bad++
			continue
		}
		events = append(events, e)
	}
	return events, bad
}

// parseState reads a state that stands where it belongs, or that was cleared.
func parseState(m pubsub.RawMessage) (State, bool) {
	if len(m.Levels) == 4 && len(m.Payload) == 0 {
		return State{Topic: m.Levels[1], Resource: m.Levels[2], Status: StatusUnknown}, true
	}
	var s State
	if len(m.Levels) != 4 || json.Unmarshal(m.Payload, &s) != nil || s.Topic != m.Levels[1] || s.Resource != m.Levels[2] {
		return State{}, false
	}
	_, ok := parseEpoch(s.Epoch)
	if s.Status == "" { // of a root that says only who holds
		s.Status = StatusFree
		if s.Holder != "" {
			s.Status = StatusHeld
		}
	}
	return s, ok
}
