// Package observer watches a lock topic from outside, through nothing but what
// its participants publish, and finds out whether the lock kept its promise.
package observer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"padme/qosmutex"
)

// maxRecords bounds what a history remembers; whatever is published beyond it is
// counted as ignored. A day of a busy run stays below it.
const maxRecords = 1 << 20

// History is what was published about one lock topic. Events of different
// participants arrive in any order, so nothing is judged before Report. It is
// safe for concurrent use.
type History struct {
	mu       sync.Mutex
	requests map[string]*request
	entries  map[entryID]*entry
	models   []modelChange
	viewed   modelChange          // what the latest view names, and since when views do
	fences   map[string]uint64    // the highest that a frame carried, by frequency
	deaths   map[string]time.Time // of participants that have died and not come back
	lives    map[string]*lives    // by participant
	absences map[string][]absence // when a participant was announced dead, in order
	frames   int
	stale    int // frames with a lower fence than one before on the frequency
	ignored  int
}

// request is one wish for a frequency, from its asking to its entry or end.
type request struct {
	participant string
	resource    string
	asked       time.Time
	priorities  []priorityAt // in order of time, never empty
	done        time.Time    // granted, withdrawn or denied; zero: pending
}

type priorityAt struct {
	at       time.Time
	priority int64
}

// entryID names an entry by its request and what it entered, so that a request
// which is granted twice shows as two entries.
type entryID struct {
	request, resource string
	fence             uint64
}

// entry is one stay in the critical section.
type entry struct {
	entryID
	participant string
	priority    int64
	at, end     time.Time // zero end: still inside, as far as is known
	lost        bool
}

type modelChange struct {
	at     time.Time
	models string
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		requests: map[string]*request{},
		entries:  map[entryID]*entry{},
		fences:   map[string]uint64{},
		deaths:   map[string]time.Time{},
		lives:    map[string]*lives{},
		absences: map[string][]absence{},
	}
}

// Event takes in one published event. Repeated events change nothing; an event
// which makes no sense is counted as ignored.
func (h *History) Event(e qosmutex.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests)+len(h.entries)+len(h.models) >= maxRecords || e.At.IsZero() {
		h.ignored++
		return
	}
	switch e.Event {
	case qosmutex.EventRequested, qosmutex.EventReprioritized:
		h.request(e).setPriority(e.At, e.Priority)
	case qosmutex.EventWithdrawn, qosmutex.EventDenied:
		h.request(e).finish(e.At)
	case qosmutex.EventGranted:
		h.granted(e)
	case qosmutex.EventReleased, qosmutex.EventLost:
		h.left(e)
	case qosmutex.EventModels:
		h.setModels(e.At, e.Models)
	}
}

// Models notes that models were in force at the given time.
func (h *History) Models(at time.Time, models string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setModels(at, models)
}

// viewSettles is how long a view must stand until it counts. It takes another connection than
// events, and may come after that of a later change; then the next view is on its way.
const viewSettles = 2 * time.Second

// View notes which models a view names that came at the given time.
func (h *History) View(at time.Time, models string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if models != h.viewed.models {
		h.viewed = modelChange{at, models}
	}
}

// believeView follows a change of models whose event went unseen.
func (h *History) believeView(now time.Time) {
	if v := h.viewed; v.models != "" && now.Sub(v.at) >= viewSettles && v.models != h.modelsAt(v.at) {
		h.setModels(v.at, v.models)
	}
}

// lives is what is known of the lives of a participant: its present incarnation, and
// when those before it were announced dead, or the next one was announced instead.
type lives struct {
	incarnation uint64
	ends        []time.Time // in order
}

// absence is a time during which a participant counted as dead; zero to: it still does.
type absence struct{ from, to time.Time }

// Presence notes that a participant's incarnation was announced alive or dead at
// the given time.
func (h *History) Presence(participant string, incarnation uint64, alive bool, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	died, known := h.deaths[participant]
	if l := h.lives[participant]; l == nil && len(h.lives) < maxRecords {
		h.lives[participant] = &lives{incarnation: incarnation}
	} else if l != nil && incarnation > l.incarnation && len(l.ends) < maxRecords {
		if !known {
			died = at
		}
		l.incarnation, l.ends = incarnation, append(l.ends, died)
	}
	switch {
	case alive:
		delete(h.deaths, participant)
		if all := h.absences[participant]; known && len(all) > 0 {
			all[len(all)-1].to = at
		}
	case !known && len(h.deaths) >= maxRecords:
		h.ignored++
	case !known:
		h.deaths[participant] = at
		if all := h.absences[participant]; len(all) < maxRecords {
			h.absences[participant] = append(all, absence{from: at})
		}
	}
}

// Frame takes in one frame as it arrives.
func (h *History) Frame(frequency string, fence uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frames++
	last, known := h.fences[frequency]
	switch {
	case !known && len(h.fences) >= maxRecords:
		h.ignored++
	case fence < last:
		h.stale++
	default:
		h.fences[frequency] = fence
	}
}

// member is the participant of an event: of one that a client asks through, the presence
// tells when it has died.
func member(e qosmutex.Event) string { return cmp.Or(e.Via, e.Participant) }

func (h *History) request(e qosmutex.Event) *request {
	r := h.requests[e.Request]
	if r == nil {
		r = &request{participant: member(e), resource: e.Resource, asked: e.At, priorities: []priorityAt{{e.At, e.Priority}}}
		h.requests[e.Request] = r
	}
	if e.Event == qosmutex.EventRequested {
		r.resource = e.Resource // a grant names what was found for Any
	}
	r.asked = earlier(r.asked, e.At)
	return r
}

func (r *request) setPriority(at time.Time, priority int64) {
	// Behind an equal time: what arrived later replaces what was said before.
	i, _ := slices.BinarySearchFunc(r.priorities, at, func(p priorityAt, at time.Time) int { return cmp.Or(p.at.Compare(at), -1) })
	r.priorities = slices.Insert(r.priorities, i, priorityAt{at, priority})
}

func (r *request) finish(at time.Time) {
	if r.done.IsZero() || at.Before(r.done) {
		r.done = at
	}
}

func (h *History) entry(e qosmutex.Event) *entry {
	fence, err := strconv.ParseUint(e.Fence, 10, 64)
	if err != nil || fence == 0 {
		h.ignored++
		return nil
	}
	id := entryID{e.Request, e.Resource, fence}
	if h.entries[id] == nil {
		h.entries[id] = &entry{entryID: id, participant: member(e)}
	}
	return h.entries[id]
}

func (h *History) granted(e qosmutex.Event) {
	in := h.entry(e)
	if in == nil {
		return
	}
	in.at, in.priority = e.At, e.Priority
	r := h.request(e)
	// Also if the asking itself went unseen.
	r.asked = earlier(r.asked, e.At.Add(-seconds(e.Waited)))
	r.finish(e.At)
}

func (h *History) left(e qosmutex.Event) {
	in := h.entry(e)
	if in == nil {
		return
	}
	if in.at.IsZero() { // the entry itself may have gone unseen
		in.at, in.priority = e.At.Add(-seconds(e.Held)), e.Priority
		h.request(e).finish(in.at)
	}
	// An entry ends once; of two claims the later one may overlap more.
	if in.end.Before(e.At) {
		in.end, in.lost = e.At, e.Event == qosmutex.EventLost
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (h *History) setModels(at time.Time, models string) {
	h.models = append(h.models, modelChange{at, models})
	slices.SortStableFunc(h.models, func(a, b modelChange) int { return a.at.Compare(b.at) })
}

// fair reports whether the last models known to be in force at t are fair.
func (h *History) fair(t time.Time) bool { return strings.HasPrefix(h.modelsAt(t), "fair") }

// modelsAt returns the last models known to be in force at t, "" for none.
func (h *History) modelsAt(t time.Time) (models string) {
	for _, m := range h.models {
		if m.at.After(t) {
			break
		}
		models = m.models
	}
	return models
}

// switched returns when the priority model was first changed; zero: never.
func (h *History) switched() time.Time {
	for _, m := range h.models {
		if priorityModel(m) != priorityModel(h.models[0]) {
			return m.at
		}
	}
	return time.Time{}
}

// phases returns the times under one priority model each.
func (h *History) phases() (all []Phase) {
	for _, m := range h.models {
		fair := priorityModel(m) == "fair"
		if len(all) == 0 || all[len(all)-1].Fair != fair {
			all = append(all, Phase{m.at, fair})
		}
	}
	return all
}

func priorityModel(m modelChange) string {
	name, _, _ := strings.Cut(m.models, "-")
	return name
}

// settled reports whether n entries or more were seen, and the ends of all.
func (h *History) settled(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if e.end.IsZero() {
			return false
		}
	}
	return len(h.entries) >= n
}

// Wait is a request that waits.
type Wait struct {
	Priority int64
	Since    time.Time
}

// Waiting returns who waits, by participant.
func (h *History) Waiting() map[string]Wait {
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := map[string]Wait{}
	for _, q := range h.requests {
		if q.done.IsZero() {
			waiting[q.participant] = Wait{q.priorities[len(q.priorities)-1].priority, q.asked}
		}
	}
	return waiting
}
