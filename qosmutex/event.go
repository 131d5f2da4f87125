package qosmutex

import (
	"strconv"
	"time"

	"padme/qosmutex/protocol"
)

// Names of events.
const (
	EventRequested     = "requested"
	EventReprioritized = "reprioritised" // names on the wire change only with their version
	EventGranted       = "granted"
	EventReleased      = "released"
	EventLost          = "lost"
	EventWithdrawn     = "withdrawn"
	EventDenied        = "denied"
	EventModels        = "models"
	EventResources     = "resources"
	EventRegenerated   = "regenerated"
	EventRooted        = "rooted"
)

// Event is something that happened to a lock. Events are published as JSON lines, one or
// more in a message, on R/lock/{topic}/events. They are reports and may be lost; State is
// what the root knows.
type Event struct {
	Event       string `json:"event"`
	Topic       string `json:"topic"`
	Resource    string `json:"resource,omitempty"`
	Participant string `json:"participant"`   // of the request; the client, if Via is set
	Via         string `json:"via,omitempty"` // the participant that a client uses; see WithClient
	// Request names one request, the same from requested to released:
	// "<participant>/<number>", where the participant is Via, if that is set.
	Request  string `json:"request,omitempty"`
	Priority int64  `json:"priority"`
	Fence    string `json:"fence,omitempty"` // decimal: it may be above 2^53
	// At is the time of the event by the participant's wall clock: of the entry for granted,
	// of the unlock for released, of the end of the hold for lost.
	At     time.Time `json:"at"`
	Waited float64   `json:"waited,omitempty"` // seconds from requested
	Held   float64   `json:"held,omitempty"`   // seconds from granted
	Models string    `json:"models,omitempty"`
	// Resources, of EventResources, are those that are declared from now on. With Open, any
	// other name is a resource, too.
	Resources []string `json:"resources,omitempty"`
	Open      bool     `json:"open,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// How, of EventGranted, is how the token came: "turn", "root" (in turn, at the root), "direct",
	// "passing" (a relay used the token of another participant), "retained" or "resumed". Empty:
	// the program is older, or the algorithm does not tell.
	How   string `json:"how,omitempty"`
	Clock uint64 `json:"clock,omitempty"` // logical, of the request, of EventGranted; Fair orders by it
}

// eventRecord is an event before it is written, small enough to be made under
// the topic's mutex.
type eventRecord struct {
	name     string
	resource string
	client   string // empty: this participant
	ref      uint64
	priority int64
	fence    uint64
	at       time.Time
	waited   time.Duration
	held     time.Duration
	models   string
	settings *protocol.Settings // of EventResources; else nil
	reason   string
	how      protocol.How
	clock    uint64
}

// event is what h has to do with an event of this name.
func (h *Hold) event(name string, at time.Time) eventRecord {
	return eventRecord{name: name, resource: h.resource, client: h.client, ref: h.ref, priority: h.priority, fence: h.fence, at: at}
}

func (t *Topic) eventOf(r *eventRecord) Event {
	e := Event{
		Event: r.name, Topic: t.name, Resource: r.resource,
		Priority: r.priority, At: r.at.UTC(),
		Waited: r.waited.Seconds(), Held: r.held.Seconds(),
		Models: r.models, Reason: r.reason, How: r.how.String(), Clock: r.clock,
	}
	if s := r.settings; s != nil {
		e.Resources, e.Open = s.Resources, s.Open
	}
	e.Participant, e.Via = asker(t.self.ID, r.client)
	if r.ref != 0 {
		e.Request = t.self.ID + "/" + strconv.FormatUint(r.ref, 10)
	}
	if r.fence != 0 {
		e.Fence = formatFence(r.fence)
	}
	return e
}

// asker is how a request of a participant, perhaps for a client, is told: who, and via
// whom.
func asker(participant, client string) (who, via string) {
	if client == "" {
		return participant, ""
	}
	return client, participant
}

// member is the participant that an event is of, and client on whose behalf.
func (e *Event) member() (participant, client string) {
	if e.Via == "" {
		return e.Participant, ""
	}
	return e.Via, e.Participant
}

func formatFence(fence uint64) string { return strconv.FormatUint(fence, 10) }

// maxFence bounds what is believed of a fence that came as JSON. Fences are
// microseconds of the wall clock at the start; 2^53 is the year 2255.
const maxFence = 1 << 53

// parseFence reads a fence that was published; 0 means none, or nonsense.
func parseFence(s string) uint64 {
	fence, err := strconv.ParseUint(s, 10, 64)
	if err != nil || fence >= maxFence {
		return 0
	}
	return fence
}
