package qosmutex

import (
	"encoding/json"
	"time"

	"padme/pubsub"
)

const (
	// flushAfter is how long reports are collected before they are published
	// together.
	flushAfter = 10 * time.Millisecond
	// eventsEvery is the least time between two publications of a participant's events.
	eventsEvery = 50 * time.Millisecond
	// stateEvery is the least time between two publications of one state.
	stateEvery = 20 * time.Millisecond
	// statePause is what each published state adds to the time before the next ones: where
	// many resources change, 2,000 states a second are published, not 50 of each.
	statePause = 500 * time.Microsecond
	// maxReports bounds the events that wait for publication.
	maxReports = 4096
	// maxLines bounds one message of JSON lines, in bytes.
	maxLines = 64 << 10
)

// reports are events on their way to the publisher.
type reports struct {
	on      bool
	pending []eventRecord
	spare   []eventRecord // the other one of two buffers
	flush   *time.Timer
	armed   bool
	due     time.Time // while armed
	next    time.Time // no events before
}

// report notes an event of this participant. The caller holds mu.
func (t *Topic) report(r eventRecord) {
	if !t.events.on {
		return
	}
	if len(t.events.pending) >= maxReports {
		t.metrics.dropped[dropReports]++
		return
	}
	t.events.pending = append(t.events.pending, r)
	t.flushSoon(flushAfter)
}

// flushSoon has the publisher run within d. The caller holds mu.
func (t *Topic) flushSoon(d time.Duration) {
	e := &t.events
	if due := time.Now().Add(d); !e.armed || due.Before(e.due) {
		e.armed, e.due = true, due
		e.flush.Reset(d)
	}
}

// publisher is the one goroutine of a topic. What it does for watchers never
// delays a lock.
func (t *Topic) publisher() {
	defer close(t.published)
	defer t.unfollowNews()
	for {
		select {
		case <-t.events.flush.C:
			t.publish()
		case <-t.p.Done():
			t.end(t.participantEnded())
			return
		case <-t.ctx.Done():
			t.publish()
			return
		}
	}
}

func (t *Topic) publish() {
	if events := t.takeReports(); events != nil {
		t.inTurn(func() { t.publishEvents(events) })
		t.mu.Lock()
		t.events.spare = events
		t.mu.Unlock()
	}
	t.followNews()
	t.inTurn(t.publishBoard)
	t.publishMember()
}

// inTurn has the topics of a participant take turns to report, with half of the processors at most.
// report must not wait for anything but mutexes.
func (t *Topic) inTurn(report func()) {
	t.alarms.reporting <- struct{}{}
	defer func() { <-t.alarms.reporting }()
	report()
}

// takeReports takes the events that may be published now.
func (t *Topic) takeReports() []eventRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.events
	e.armed = false
	if len(e.pending) == 0 {
		return nil
	}
	if wait := time.Until(e.next); wait > 0 && t.ctx.Err() == nil {
		t.flushSoon(wait)
		return nil
	}
	e.next = time.Now().Add(eventsEvery)
	events := e.pending
	e.pending, e.spare = e.spare[:0], nil
	return events
}

func (t *Topic) publishEvents(records []eventRecord) {
	var lines []byte
	for i := range records {
		e := t.eventOf(&records[i])
		var err error
		if lines, err = appendEvent(lines, &e); err != nil {
			t.log.Error("event not written", "event", e.Event, "error", err)
		}
		if len(lines) > maxLines || i == len(records)-1 {
			t.publishSide([]string{"lock", t.name, "events"}, lines, false)
			lines = lines[:0]
		}
	}
}

// publishSide publishes for watchers. A failure is counted: events are reports,
// and states are published again after the next change.
func (t *Topic) publishSide(levels []string, payload []byte, retain bool) {
	t.countPublication(levels, t.p.PublishRaw(pubsub.Side, levels, payload, retain))
}

// countPublication counts what the client did not take.
func (t *Topic) countPublication(levels []string, err error) {
	if err != nil {
		t.mu.Lock()
		t.metrics.dropped[dropPublication]++
		t.mu.Unlock()
		t.log.Debug("not published", "levels", levels, "error", err)
	}
}

// publishInTerm publishes what is retained in the name of the topic, if it leaves in
// this term, and notes it under sent, which is called with mu held.
func (t *Topic) publishInTerm(term *term, levels []string, value any, sent func() *echoes) {
	payload, err := json.Marshal(value)
	if err != nil {
		t.log.Error("not written", "levels", levels, "error", err)
		return
	}
	t.mu.Lock()
	sent().note(payload)
	t.mu.Unlock()
	t.countPublication(levels, t.p.PublishWhile(term.lasts, levels, payload))
}
