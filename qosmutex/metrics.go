package qosmutex

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/protocol"
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
	topic      *Topic
	sent       [kinds]uint64
	received   [kinds]uint64
	dropped    [dropEnd]uint64
	unsent     uint64
	entries    uint64
	losses     uint64
	waiting    prometheus.Histogram
	holding    prometheus.Histogram
	handover   prometheus.Histogram
	registered prometheus.Registerer
}

var (
	messagesDesc = prometheus.NewDesc("qosmutex_messages_total", "Messages of the lock protocol.", []string{"kind", "direction"}, nil)
	droppedDesc  = prometheus.NewDesc("qosmutex_dropped_total", "What was dropped, by reason.", []string{"reason"}, nil)
	refusedDesc  = prometheus.NewDesc("qosmutex_refused_total", "Messages that the algorithm refused: stale ones were repeated or are of the past, invalid ones no correct participant sends.", []string{"reason"}, nil)
	unsentDesc   = prometheus.NewDesc("qosmutex_unsent_total", "Messages that the transport did not take; the protocol repeats them.", nil, nil)
	entriesDesc  = prometheus.NewDesc("qosmutex_entries_total", "Entries of this participant.", nil, nil)
	lossesDesc   = prometheus.NewDesc("qosmutex_losses_total", "Holds of this participant that were lost.", nil, nil)
	termsDesc    = prometheus.NewDesc("qosmutex_terms_total", "How often this participant became the root.", nil, nil)
	pendingDesc  = prometheus.NewDesc("qosmutex_pending_requests", "Requests of this participant that wait.", nil, nil)
	queueDesc    = prometheus.NewDesc("qosmutex_queue_length", "Requests that wait, as this participant knows.", []string{"resource"}, nil)
)

func newMetrics() *metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(50e-6, 4, 12), // 50 µs to 210 s
		})
	}
	return &metrics{
		waiting:  histogram("qosmutex_waiting_seconds", "From request to entry."),
		holding:  histogram("qosmutex_holding_seconds", "From entry to release."),
		handover: histogram("qosmutex_handover_seconds", "From a release to the next entry by a waiting request, by the events that the root saw."),
	}
}

// register makes the metrics of t visible until unregister.
func (m *metrics) register(t *Topic) error {
	m.topic = t
	if t.options.metrics == nil {
		return nil
	}
	r := prometheus.WrapRegistererWith(prometheus.Labels{"participant": t.self.ID, "lock": t.name}, t.options.metrics)
	if err := r.Register(m); err != nil {
		return fmt.Errorf("%w: metrics of lock topic %q: %w", ErrInvalidConfig, t.name, err)
	}
	m.registered = r
	return nil
}

func (m *metrics) unregister() {
	if m.registered != nil {
		m.registered.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, droppedDesc, refusedDesc, unsentDesc, entriesDesc, lossesDesc, termsDesc, pendingDesc, queueDesc} {
		ch <- d
	}
	for _, h := range []prometheus.Histogram{m.waiting, m.holding, m.handover} {
		h.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, h := range []prometheus.Histogram{m.waiting, m.holding, m.handover} {
		h.Collect(ch)
	}
	for _, c := range m.sample() {
		ch <- c
	}
}

// sample reads the numbers without blocking on the channel of a collection.
func (m *metrics) sample() []prometheus.Metric {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	counter := func(d *prometheus.Desc, v uint64, labels ...string) prometheus.Metric {
		return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	all := []prometheus.Metric{
		counter(unsentDesc, m.unsent), counter(entriesDesc, m.entries), counter(lossesDesc, m.losses),
		prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(len(t.calls)-len(t.inside))),
	}
	for k := range kinds {
		kind := protocol.Kind(k)
		if !kind.Valid() {
			continue
		}
		all = append(all, counter(messagesDesc, m.sent[k], kind.String(), "sent"), counter(messagesDesc, m.received[k], kind.String(), "received"))
	}
	for i, n := range m.dropped {
		all = append(all, counter(droppedDesc, n, dropNames[i]))
	}
	if t.machine != nil {
		st := t.machine.Status()
		all = append(all, counter(termsDesc, st.Counters.Terms),
			counter(refusedDesc, st.Counters.Stale, "stale"), counter(refusedDesc, st.Counters.Invalid, "invalid"))
		for _, r := range st.Resources {
			all = append(all, prometheus.MustNewConstMetric(queueDesc, prometheus.GaugeValue, float64(r.Waiting), r.Resource))
		}
	}
	return all
}
