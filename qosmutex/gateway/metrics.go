package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/jsonlock"
)

// counters count by what we name, never by what strangers name.
type counters struct {
	requests, answers, refused *prometheus.CounterVec
	unsent                     prometheus.Counter
	serving                    prometheus.Gauge
	clients, live, limited     prometheus.Collector
}

func newCounters(g *gateway) counters {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return counters{
		requests: vector("qosmutex_gateway_requests_total", "Requests of foreign clients that were understood.", "op",
			jsonlock.Acquire, jsonlock.Renew, jsonlock.Raise, jsonlock.Release, jsonlock.Query, jsonlock.Gone, jsonlock.Show, jsonlock.Remove),
		answers: vector("qosmutex_gateway_answers_total", "Answers to foreign clients.", "outcome",
			jsonlock.Granted, jsonlock.Waiting, jsonlock.Denied, jsonlock.Lost, jsonlock.Expired, jsonlock.Released, jsonlock.Shown),
		refused: vector("qosmutex_gateway_refused_total", "Requests of foreign clients that were refused or dropped, and locks that were denied.", "reason",
			jsonlock.Malformed, jsonlock.TooLarge, jsonlock.BadOp, jsonlock.BadID, jsonlock.BadResource, jsonlock.BadPriority, jsonlock.BadWait, jsonlock.BadLease,
			jsonlock.TooMany, jsonlock.TooFast, jsonlock.Stale, jsonlock.Overload, jsonlock.NotOffered,
			jsonlock.Busy, jsonlock.NotReady, jsonlock.WaitOver, jsonlock.Undeclared, jsonlock.Unattainable, jsonlock.Missed, jsonlock.Unsupported, jsonlock.Refused),
		unsent:  prometheus.NewCounter(prometheus.CounterOpts{Name: "qosmutex_gateway_unsent_total", Help: "Answers that the transport did not take; the client asks again."}),
		serving: prometheus.NewGauge(prometheus.GaugeOpts{Name: "qosmutex_gateway_serving", Help: "Lock topics for which this gateway answers."}),
		clients: gauge("qosmutex_gateway_clients", "Foreign clients that this gateway remembers.", g.knows),
		live:    gauge("qosmutex_gateway_live_requests", "Requests of foreign clients that wait or hold.", func() int { total, _ := g.live.counts(""); return total }),
		limited: limitedTotal{g.reached},
	}
}

// vector counts by a label that has these values, each of which is there from the beginning:
// an alert on an increase would not see a series begin with 1.
func vector[T ~string](name, help, label string, values ...T) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		v.WithLabelValues(string(value))
	}
	return v
}

// register makes the counters visible until unregister.
func (c *counters) register(r prometheus.Registerer, participant string) (unregister func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	r = prometheus.WrapRegistererWith(prometheus.Labels{"participant": participant}, r)
	all := []prometheus.Collector{c.requests, c.answers, c.refused, c.unsent, c.serving, c.clients, c.live, c.limited}
	unregister = func() {
		for _, m := range all {
			r.Unregister(m)
		}
	}
	for _, m := range all {
		if err := r.Register(m); err != nil {
			unregister()
			return nil, fmt.Errorf("gateway: metrics: %w", err)
		}
	}
	return unregister, nil
}
