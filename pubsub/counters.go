package pubsub

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// errVersion marks an envelope of another protocol version.
var errVersion = errors.New("pubsub: unknown version")

// reason says why a received or queued message was dropped.
type reason int

const (
	dropMalformed  reason = iota // not an envelope, or a broken one
	dropVersion                  // an envelope of another protocol version
	dropTopic                    // a topic that decodes to no name
	dropChannel                  // a letter for a channel without handler
	dropKind                     // an envelope of an unknown kind
	dropBacklog                  // the side lane's queue was full
	dropUnmatched                // a sample of a writer that does not match
	dropDuplicate                // a sample received before
	dropDisconnect               // queued or unacknowledged when the connection was lost
	dropLate                     // too late for the order by source time
	reasons
)

var reasonNames = [reasons]string{"malformed", "version", "topic", "channel", "kind", "backlog", "unmatched", "duplicate", "disconnect", "late"}

// counters are what a participant counts about itself; they are a
// prometheus.Collector, so that counting costs one atomic add.
type counters struct {
	sent, received, published, connects atomic.Uint64
	dropped                             [reasons]atomic.Uint64
	statuses                            [statusKinds]atomic.Uint64
}

var (
	descSent      = prometheus.NewDesc("pubsub_letters_sent_total", "Letters handed to the MQTT client.", nil, nil)
	descReceived  = prometheus.NewDesc("pubsub_letters_received_total", "Letters given to inbox handlers.", nil, nil)
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
		counter(descDropped, &c.dropped[r], reasonNames[r])
	}
}

func (c *counters) drop(r reason) { c.dropped[r].Add(1) }

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
func (c *counters) status(e Event) {
	switch e.(type) {
	case Matched:
		c.statuses[countMatched].Add(1)
	case Unmatched:
		c.statuses[countUnmatched].Add(1)
	case IncompatibleQoS:
		c.statuses[countIncompatible].Add(1)
	case InconsistentTopic:
		c.statuses[countInconsistent].Add(1)
	case SampleLost:
		c.statuses[countLost].Add(1)
	case SampleRejected:
		c.statuses[countRejected].Add(1)
	case OfferedDeadlineMissed:
		c.statuses[countOfferedDeadline].Add(1)
	case RequestedDeadlineMissed:
		c.statuses[countRequestedDeadline].Add(1)
	case LivelinessLost:
		c.statuses[countLivelinessLost].Add(1)
	case LivelinessChanged:
		c.statuses[countLivelinessChanged].Add(1)
	}
}
