package qosmutex

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// dropReason says why something was dropped.
type dropReason int

const (
	dropMalformed   dropReason = iota // not a message of the protocol, or not JSON
	dropSender                        // the sender in the message is not that in the topic
	dropAddress                       // for another incarnation
	dropMachine                       // the machine refused it
	dropReports                       // too many events wait
	dropNews                          // the root reads its topic too slowly
	dropPublication                   // the client did not take it
	dropForeign                       // a state, view or event in the root's name, or of a fence that it never handed out
	dropEnd
)

var dropNames = [dropEnd]string{"malformed", "sender", "address", "machine", "reports", "news", "publication", "foreign"}

// kinds bounds the numbers of kinds of message.
const kinds = 64

// metrics are plain numbers under the topic's mutex, as counting must cost
// nothing where it counts; histograms have locks of their own.
type metrics struct {
	topic    *Topic
	sent     [kinds]uint64
	received [kinds]uint64
	dropped  [dropEnd]uint64
	unsent   uint64
	entries  uint64
	losses   uint64
	told     uint64 // losses of all participants, at the root
	times
	label      *label // nil: it has none of its own, or no metrics at all
	registered prometheus.Registerer
	crowd      *crowd // of the topics that have no label of their own; nil: this one has, or has no metrics
}

// times are the histograms of one lock topic, or of all that share a label. They are nil in a
// topic without metrics.
type times struct {
	waiting, holding      prometheus.Histogram // of this participant
	handover              prometheus.Histogram // these three at the root, of all participants
	lockWaiting, lockHeld prometheus.Histogram
}

var (
	messagesDesc   = prometheus.NewDesc("qosmutex_messages_total", "Messages of the lock protocol.", []string{"kind", "direction"}, nil)
	droppedDesc    = prometheus.NewDesc("qosmutex_dropped_total", "What was dropped, by reason.", []string{"reason"}, nil)
	refusedDesc    = prometheus.NewDesc("qosmutex_refused_total", "Messages that the algorithm refused: stale ones were repeated or are of the past, invalid ones no correct participant sends.", []string{"reason"}, nil)
	limitedDesc    = prometheus.NewDesc("qosmutex_limited_total", "Requests and heartbeats that this participant refused, by the limit that they were beyond.", []string{"limit"}, nil)
	unsentDesc     = prometheus.NewDesc("qosmutex_unsent_total", "Messages that the transport did not take; the protocol repeats them.", nil, nil)
	entriesDesc    = prometheus.NewDesc("qosmutex_entries_total", "Entries of this participant.", nil, nil)
	lossesDesc     = prometheus.NewDesc("qosmutex_losses_total", "Holds of this participant that were lost.", nil, nil)
	termsDesc      = prometheus.NewDesc("qosmutex_terms_total", "How often this participant became the root.", nil, nil)
	pendingDesc    = prometheus.NewDesc("qosmutex_pending_requests", "Requests of this participant that wait.", nil, nil)
	holdsDesc      = prometheus.NewDesc("qosmutex_holds", "Resources that this participant holds.", nil, nil)
	queueDesc      = prometheus.NewDesc("qosmutex_queue_length", "Requests that wait, as this participant knows; resources that nobody declared are counted together.", []string{"resource"}, nil)
	roleDesc       = prometheus.NewDesc("qosmutex_role", "1 for the role of this participant: root, member, or joining while it has no root.", []string{"role"}, nil)
	registerDesc   = prometheus.NewDesc("qosmutex_register_failing", "1 while the register of who is the root does not answer this participant.", nil, nil)
	expiriesDesc   = prometheus.NewDesc("qosmutex_expiries_total", "Sessions that expired: of other participants at the root, else of this one.", nil, nil)
	recoveriesDesc = prometheus.NewDesc("qosmutex_recoveries_total", "Recoveries that the root began because a token may be lost.", nil, nil)
	renewedDesc    = prometheus.NewDesc("qosmutex_regenerated_total", "Tokens that the root regenerated because their holder had died.", nil, nil)
	membersDesc    = prometheus.NewDesc("qosmutex_members", "Participants of the lock topic, at the root.", nil, nil)
	recoveringDesc = prometheus.NewDesc("qosmutex_recovering", "Resources that nobody can enter because the root waits for a holder that may be dead.", nil, nil)
	heldDesc       = prometheus.NewDesc("qosmutex_lock_held_seconds", "For how long the resource is held that has been held the longest, at the root; 0 if none is.", nil, nil)
	lockLossesDesc = prometheus.NewDesc("qosmutex_lock_losses_total", "Lost holds of all participants that said so, at the root.", nil, nil)
)

func newTimes() times {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(50e-6, 4, 12), // 50 µs to 210 s
		})
	}
	ofAll := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help + " of all participants, as they told the root.",
			Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000}, // people hold for hours
		})
	}
	return times{
		waiting:     histogram("qosmutex_waiting_seconds", "From request to entry, of this participant."),
		holding:     histogram("qosmutex_holding_seconds", "From entry to release, of this participant."),
		handover:    histogram("qosmutex_handover_seconds", "From a release to the next entry by a waiting request, by the events that the root saw."),
		lockWaiting: ofAll("qosmutex_lock_waiting_seconds", "From request to entry,"),
		lockHeld:    ofAll("qosmutex_lock_holding_seconds", "From entry to release,"),
	}
}

// each calls f with the histograms; those of a root only if rooted.
func (h *times) each(rooted bool, f func(prometheus.Histogram)) {
	f(h.waiting)
	f(h.holding)
	if rooted {
		f(h.handover)
		f(h.lockWaiting)
		f(h.lockHeld)
	}
}

// mostTold bounds what is believed of a time that another participant tells, in seconds: one
// that lies must not spoil the sum.
const mostTold = 1e7

// observe notes a time if there are metrics.
func observe(h prometheus.Histogram, seconds float64) {
	if h != nil {
		h.Observe(seconds)
	}
}

// tell observes what another participant told the root, once for each entry.
func (m *metrics) tell(e *Event, s *passage) {
	switch {
	case e.Event == EventGranted && !s.entered:
		s.entered = true
		observeTold(m.lockWaiting, e.Waited)
	case (e.Event == EventReleased || e.Event == EventLost) && !s.left:
		s.left = true
		observeTold(m.lockHeld, e.Held)
		if e.Event == EventLost {
			m.told++
		}
	}
}

func observeTold(h prometheus.Histogram, seconds float64) {
	if seconds >= 0 && seconds < mostTold {
		observe(h, seconds)
	}
}

// register makes the metrics of t visible until unregister.
func (m *metrics) register(t *Topic) error {
	m.topic = t
	switch {
	case t.options.metrics == nil:
		return nil
	case t.labels == nil:
		m.label = newLabel()
	default:
		if m.label = t.labels.take(t.name); m.label == nil {
			m.crowd = t.labels.crowd
			m.times = m.crowd.times
			m.crowd.enter(m)
			t.labels.tell(t.options.log)
			return nil
		}
	}
	m.times = newTimes()
	r := prometheus.WrapRegistererWith(prometheus.Labels{"participant": t.self.ID, "lock": t.name}, t.options.metrics)
	if err := r.Register(m); err != nil {
		if t.labels != nil {
			t.labels.leave(t.name)
		}
		return fmt.Errorf("%w: metrics of lock topic %q: %w", ErrInvalidConfig, t.name, err)
	}
	m.registered = r
	return nil
}

func (m *metrics) unregister() {
	if m.crowd != nil {
		m.crowd.leave(m)
	}
	if m.registered == nil {
		return
	}
	m.registered.Unregister(m)
	if m.topic.labels != nil {
		m.topic.labels.leave(m.topic.name)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { describe(&m.times, ch) }

func describe(h *times, ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		messagesDesc, droppedDesc, refusedDesc, limitedDesc, unsentDesc, entriesDesc, lossesDesc, termsDesc, pendingDesc, holdsDesc, queueDesc, roleDesc,
		registerDesc, expiriesDesc, recoveriesDesc, renewedDesc, membersDesc, recoveringDesc, heldDesc, lockLossesDesc,
	} {
		ch <- d
	}
	h.each(true, func(h prometheus.Histogram) { h.Describe(ch) })
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	all, rooted := m.sample()
	m.each(rooted, func(h prometheus.Histogram) { h.Collect(ch) })
	for _, f := range all {
		ch <- f.metric()
	}
}
