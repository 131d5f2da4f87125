package papers

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

const (
	flushAfter  = 20 * time.Millisecond // reports are collected for that long
	followAgain = time.Second           // after a subscription that failed
	maxReports  = 4096                  // bounds the events that wait for publication
	maxLines    = 64 << 10              // bounds one message of JSON lines, in bytes
	maxFence    = 1 << 53               // bounds what is believed of a fence: it is the year 2255
)

// reports is what is to be published, on a connection that delays no lock.
type reports struct {
	flush   *time.Timer
	soon    bool
	pending []qosmutex.Event
	epoch   string
	states  map[string]*entry // at the first member, by resource
}

// entry is the last entry to a resource, as events tell of it.
type entry struct {
	dirty bool
	fence uint64
	state qosmutex.State
}

func (r *reports) begin(t *Topic) {
	r.flush = time.NewTimer(flushAfter)
	r.epoch, r.states = t.machine.Status().Epoch.String(), map[string]*entry{}
	for _, resource := range t.cfg.Resources {
		r.at(t, resource)
	}
}

// at returns the entry of a resource, if it is one that the topic has. In a topic with any
// resource their number is bounded, as anybody can name one in an event.
func (r *reports) at(t *Topic, resource string) *entry {
	e := r.states[resource]
	if e == nil && t.first() && len(r.states) < protocol.MaxResources && (t.cfg.AnyResource || slices.Contains(t.cfg.Resources, resource)) && checkName(resource) == nil {
		e = &entry{dirty: true, state: qosmutex.State{
			Topic: t.name, Resource: resource, Status: qosmutex.StatusFree, Since: time.Now().UTC(), Epoch: r.epoch, Root: t.self.ID,
		}}
		r.states[resource] = e
	}
	return e
}

// again publishes all states: the broker may have forgotten them.
func (r *reports) again(t *Topic) {
	for e := range maps.Values(r.states) {
		e.dirty = true
	}
	t.flushSoon()
}

func (t *Topic) flushSoon() {
	if !t.reports.soon {
		t.reports.soon = true
		t.reports.flush.Reset(flushAfter)
	}
}

// report notes an event of a request. The caller holds mu.
func (t *Topic) report(p *qosmutex.Pending, name string, reason ...string) {
	e := qosmutex.Event{
		Event: name, Topic: t.name, Resource: p.Resource, Participant: t.self.ID, Priority: p.Priority,
		Request: t.self.ID + "/" + strconv.FormatUint(p.Ref, 10), At: time.Now().UTC(),
	}
	if p.Client != "" {
		e.Participant, e.Via = p.Client, t.self.ID
	}
	if len(reason) > 0 {
		e.Reason = reason[0]
	}
	switch name {
	case qosmutex.EventGranted:
		e.Waited = p.Entered.Sub(p.Requested).Seconds()
	case qosmutex.EventReleased, qosmutex.EventLost:
		e.Held = time.Since(p.Entered).Seconds()
	}
	if h := p.Granted(); h != nil {
		e.Fence = strconv.FormatUint(h.Fence(), 10)
	}
	t.read(&e)
	if len(t.reports.pending) < maxReports {
		t.reports.pending = append(t.reports.pending, e)
	}
	t.flushSoon()
}

// follow reads the events of all members, at the first one.
func (t *Topic) follow() {
	for t.ctx.Err() == nil {
		for e, err := range qosmutex.WatchEvents(t.ctx, t.p, t.name) {
			if err != nil {
				t.log.Info("events are missing: a state may be wrong until the next entry", "error", err)
				continue
			}
			t.mu.Lock()
			t.read(&e)
			t.flushSoon()
			t.mu.Unlock()
		}
		wait.Sleep(t.ctx, followAgain)
	}
}

// read learns from an event who is inside. The caller holds mu.
func (t *Topic) read(e *qosmutex.Event) {
	is := t.reports.at(t, e.Resource)
	if is == nil {
		return
	}
	fence, err := strconv.ParseUint(e.Fence, 10, 64)
	if err != nil || fence < is.fence || fence >= maxFence {
		return
	}
	s := &is.state
	switch over := e.Event == qosmutex.EventReleased || e.Event == qosmutex.EventLost; {
	case over && (fence > is.fence || s.Status == qosmutex.StatusHeld):
		s.Status, s.Holder, s.Via, s.Priority = qosmutex.StatusFree, "", "", 0
	case e.Event == qosmutex.EventGranted && fence > is.fence:
		s.Status, s.Holder, s.Via, s.Priority = qosmutex.StatusHeld, e.Participant, e.Via, e.Priority
	default:
		return
	}
	is.dirty, is.fence, s.Fence, s.Since = true, fence, e.Fence, e.At
}

// publish tells watchers what has happened since it was last called.
func (t *Topic) publish() {
	t.mu.Lock()
	events := t.reports.pending
	t.reports.pending, t.reports.soon = nil, false
	var states []qosmutex.State
	for _, e := range t.reports.states {
		if e.dirty {
			e.dirty = false
			states = append(states, e.state)
		}
	}
	t.mu.Unlock()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines) // ends each value with a newline
	for i := range events {
		_ = encoder.Encode(&events[i])
		if lines.Len() > maxLines || i == len(events)-1 {
			t.tell([]string{"lock", t.name, "events"}, lines.Bytes(), false)
			lines.Reset()
		}
	}
	for i := range states {
		payload, _ := json.Marshal(&states[i])
		t.tell([]string{"lock", t.name, states[i].Resource, "state"}, payload, true)
	}
}

// tell publishes on the side. What fails is told by the next event or state.
func (t *Topic) tell(levels []string, payload []byte, retain bool) {
	if err := t.p.PublishRaw(pubsub.Side, levels, payload, retain); err != nil {
		t.log.Debug("not published", "levels", levels, "error", err)
	}
}
