package qosmutex

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClientStatus describes a Client for people.
type ClientStatus struct {
	Connected bool
	// Server is the participant that answered last, "" if none has.
	Server string
	// Servers are the known servers, sorted; nil if the client did not look for them because
	// answers arrived.
	Servers []string
	Waiting []ClientRequest // in the order of asking
}

// ClientRequest is a request of a Client that waits.
type ClientRequest struct {
	Resource string
	Priority int64
	Since    time.Time
	Position int           // in the queue, 1 is the next; 0: not known
	Silent   time.Duration // how long the server has not answered
	Busy     string        // why it is not at the server, or why the server rejected it as busy or cannot grant; otherwise ""
}

// Status describes the client: the server that it uses, and the requests that wait.
func (c *Client) Status() ClientStatus {
	if c.made() != nil {
		return ClientStatus{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st := ClientStatus{Connected: c.p.Connected(), Server: c.server}
	if c.search.running {
		st.Servers = slices.AppendSeq([]string{}, maps.Keys(c.search.servers))
		slices.Sort(st.Servers)
	}
	now := c.clock()
	for _, k := range c.inOrder() {
		if k.hold.phase.Load() != waiting {
			continue
		}
		w := ClientRequest{Resource: k.asked, Priority: k.priority, Since: k.hold.requested, Position: k.position, Busy: k.busy}
		if k.silent != 0 {
			w.Silent = time.Duration(now - k.silent)
		}
		st.Waiting = append(st.Waiting, w)
	}
	return st
}

type noServerError struct {
	topic, url string
	at         scope
}

func (e *noServerError) Error() string {
	if e.at != (scope{}) { // the lock node of a broker may well be there, for the default one
		return fmt.Sprintf("%v: nobody serves lock topic %q%s on %s: start \"pubsub-node serve%s\", or give the %s of those who serve", ErrNoServer, e.topic, e.at.in, e.url, e.at.flags, e.at.names)
	}
	return fmt.Sprintf("%v: nobody serves lock topic %q to clients on %s: start \"pubsub-node broker\" or \"pubsub-node serve\" there", ErrNoServer, e.topic, e.url)
}

func (e *noServerError) Unwrap() error { return ErrNoServer }

// clientCounters count; they are a prometheus.Collector.
type clientCounters struct {
	entries, losses, ignored atomic.Uint64
	registered               prometheus.Registerer
}

var ignoredDesc = prometheus.NewDesc("qosmutex_client_ignored_total", "Answers that a client could not use.", nil, nil)

func (m *clientCounters) register(c *Client) error {
	if c.options.metrics == nil {
		return nil
	}
	r := prometheus.WrapRegistererWith(prometheus.Labels{"participant": c.p.ID(), "lock": c.name}, c.options.metrics)
	if err := r.Register(m); err != nil {
		return fmt.Errorf("%w: metrics of lock topic %q: %w", ErrInvalidConfig, c.name, err)
	}
	m.registered = r
	return nil
}

func (m *clientCounters) unregister() {
	if m.registered != nil {
		m.registered.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *clientCounters) Describe(ch chan<- *prometheus.Desc) {
	ch <- entriesDesc
	ch <- lossesDesc
	ch <- ignoredDesc
}

// Collect implements prometheus.Collector.
func (m *clientCounters) Collect(ch chan<- prometheus.Metric) {
	for d, v := range map[*prometheus.Desc]*atomic.Uint64{entriesDesc: &m.entries, lossesDesc: &m.losses, ignoredDesc: &m.ignored} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()))
	}
}
