// Package workload derives the workload of a lock from a recording of its events: who asks
// for it, how often, for what, and for how long they hold it, as a scenario of
// `pubsub-node plan`. It keeps sums, so its memory is bounded by the askers, not by the
// events. What it reads is a stranger's: it bounds what it keeps, and quotes what it writes.
package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"padme/cmd/internal/recording"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

const (
	// MaxAskers bounds the askers of a lock.
	MaxAskers = 10_000

	maxLocks     = 1000    // of which names and views are kept
	maxOut       = 1 << 17 // requests without an end that are kept, of all askers
	maxOutOfOne  = 1024    // and of one of them
	maxResources = 1024    // names of resources that are kept
	maxName      = 512     // bytes of a name
	maxView      = 1 << 18 // bytes of the settings of a lock
)

var (
	// ErrTooMany is wrapped by the error of a lock with more than MaxAskers.
	ErrTooMany = errors.New("too many askers")
	// ErrTooFew is wrapped by the error of a lock of which too little was recorded.
	ErrTooFew = errors.New("too few requests")
)

// LockError says that a recording has no events of a lock, or events of several while none
// was chosen.
type LockError struct {
	Lock  string   // empty: none was chosen
	Locks []string // that have events
}

func (e *LockError) Error() string {
	if e.Lock == "" {
		return fmt.Sprintf("events of %d locks", len(e.Locks))
	}
	return fmt.Sprintf("no events of lock %q", e.Lock)
}

// Workload sums up the events of a lock. It is not safe for concurrent use.
type Workload struct {
	lock   string // empty: that of the first event
	chosen bool
	locks  map[string]bool // that have events
	views  map[string]*settings

	askers    map[asking]*asker
	members   map[string]*member
	resources map[string]int // their places in names
	names     []string

	now    int64 // milliseconds into the recording, never falling
	out    int   // requests without an end
	calm   calm
	delays delays
	counts counts
}

// counts are what a person should know of a recording before believing figures from it.
type counts struct {
	missed    int // messages that the recorder did not write
	missing   int // requests of which no event was recorded
	headless  int // ends of requests whose begin was not recorded
	unended   int // requests whose end was not recorded
	malformed int // events that could not be read
	absurd    int // times that cannot be true
	lost      int // holds that were lost
	withdrawn int
	denied    int
}

// settings are those that the root of a lock has published last.
type settings struct {
	models    string
	changed   bool    // the models, during the recording
	ttl       float64 // seconds
	resources []string
	declared  bool // somebody said which resources there are
}

// New returns the workload of a lock, or, if its name is empty, of the only one that there is.
func New(lock string) *Workload {
	return &Workload{
		lock: lock, chosen: lock != "", locks: map[string]bool{}, views: map[string]*settings{},
		askers: map[asking]*asker{}, members: map[string]*member{}, resources: map[string]int{},
	}
}

// Add takes the next message of a recording. An error wraps ErrTooMany.
func (w *Workload) Add(m *recording.Message) error {
	w.now = max(w.now, min(m.MS, int64(longest/time.Millisecond)))
	if m.Missed > 0 {
		w.counts.missed += m.Missed
		w.gap()
		return nil
	}
	if len(m.Levels) != 3 || m.Levels[0] != "lock" || len(m.Levels[1]) > maxName {
		return nil
	}
	payload := m.Data
	if len(payload) == 0 {
		payload = []byte(m.Text)
	}
	switch m.Levels[2] {
	case "view":
		w.view(m.Levels[1], payload)
	case "events":
		return w.events(m.Levels[1], payload)
	}
	return nil
}

// view notes the settings of a lock.
func (w *Workload) view(lock string, payload []byte) {
	if w.lock != "" && lock != w.lock || len(payload) > maxView {
		return
	}
	var v qosmutex.View
	if json.Unmarshal(payload, &v) != nil || v.Topic != lock {
		return // also of a view that was cleared
	}
	before := w.views[lock]
	if _, err := qosmutex.ParseModels(v.Models); err != nil || before == nil && len(w.views) >= maxLocks {
		return
	}
	w.views[lock] = &settings{
		models: v.Models, changed: before != nil && (before.changed || before.models != v.Models),
		ttl: v.TTL, resources: v.Resources, declared: v.ResourcesBy != "" && len(v.Resources) > 0,
	}
}

// events takes those of a message. Gateways decide by a lock of their own which of them
// answers; nobody means that one who does not name it.
func (w *Workload) events(lock string, payload []byte) error {
	if lock == gateway.RoleTopic && w.lock != lock {
		return nil
	}
	if len(w.locks) < maxLocks {
		w.locks[lock] = true
	}
	if w.lock == "" {
		w.lock = lock
		maps.DeleteFunc(w.views, func(of string, _ *settings) bool { return of != lock })
	}
	if lock != w.lock {
		return nil
	}
	for line := range bytes.Lines(payload) {
		var e qosmutex.Event
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &e); err != nil || e.Topic != lock {
			w.counts.malformed++
			continue
		}
		if err := w.event(&e); err != nil {
			return err
		}
	}
	return nil
}

// span is how long was recorded.
func (w *Workload) span() time.Duration { return time.Duration(w.now) * time.Millisecond }

// lockNames are the locks with events, in order.
func (w *Workload) lockNames() []string {
	return slices.Sorted(maps.Keys(w.locks))
}
