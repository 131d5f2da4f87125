package pubsub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub/internal/drop"
)

// counters are what a participant counts about itself; they are a
// prometheus.Collector, so that counting costs one atomic add.
type counters struct {
	sent, received, published, connects atomic.Uint64
	dropped                             [drop.Reasons]atomic.Uint64
	statuses                            [statusKinds]atomic.Uint64
}

var (
	descSent      = prometheus.NewDesc("pubsub_messages_sent_total", "Messages to inboxes that were handed to the MQTT client.", nil, nil)
	descReceived  = prometheus.NewDesc("pubsub_messages_received_total", "Messages that were given to handlers of the inbox.", nil, nil)
	descPublished = prometheus.NewDesc("pubsub_published_total", "Raw messages accepted for publishing.", nil, nil)
	descConnects  = prometheus.NewDesc("pubsub_connects_total", "Completed connections, the first one included.", nil, nil)
	descStatus    = prometheus.NewDesc("pubsub_status_total", "Changes of status of writers and readers, by the event that tells them.", []string{"event"}, nil)
	descDropped   = prometheus.NewDesc("pubsub_dropped_total", "Messages dropped, by reason.", []string{"reason"}, nil)
)

func (c *counters) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSent, descReceived, descPublished, descConnects, descStatus, descDropped} {
		ch <- d
	}
}

func (c *counters) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	counter(descSent, &c.sent)
	counter(descReceived, &c.received)
	counter(descPublished, &c.published)
	counter(descConnects, &c.connects)
	for k := range c.statuses {
		counter(descStatus, &c.statuses[k], statusNames[k])
	}
	for r := range c.dropped {
		counter(descDropped, &c.dropped[r], drop.Reason(r).String())
	}
}

func (c *counters) drop(r drop.Reason) { c.dropped[r].Add(1) }

// statusKind is an event that is counted.
type statusKind int

const (
	countMatched statusKind = iota
	countUnmatched
	countIncompatible
	countInconsistent
	countLost
	countRejected
	countOfferedDeadline
	countRequestedDeadline
	countLivelinessLost
	countLivelinessChanged
	statusKinds
)

var statusNames = [statusKinds]string{
	"matched", "unmatched", "incompatible_qos", "inconsistent_topic", "sample_lost", "sample_rejected",
	"offered_deadline_missed", "requested_deadline_missed", "liveliness_lost", "liveliness_changed",
}

// status counts an event.
func (c *counters) status(e Event) { c.statuses[e.event()].Add(1) }
