package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// counters count by what we name, never by what strangers name.
type counters struct {
	requests, answers, refused *prometheus.CounterVec
	unsent                     prometheus.Counter
	serving                    prometheus.Gauge
}

func newCounters() counters {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return counters{
		requests: vec("qosmutex_gateway_requests_total", "Requests of foreign clients that were understood.", "op"),
		answers:  vec("qosmutex_gateway_answers_total", "Answers to foreign clients.", "outcome"),
		refused:  vec("qosmutex_gateway_refused_total", "Requests of foreign clients that were refused or dropped, and locks that were denied.", "reason"),
		unsent:   prometheus.NewCounter(prometheus.CounterOpts{Name: "qosmutex_gateway_unsent_total", Help: "Answers that the transport did not take; the client asks again."}),
		serving:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "qosmutex_gateway_serving", Help: "Lock topics for which this gateway answers."}),
	}
}

// register makes the counters visible until unregister.
func (c *counters) register(r prometheus.Registerer, participant string) (unregister func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	r = prometheus.WrapRegistererWith(prometheus.Labels{"participant": participant}, r)
	all := []prometheus.Collector{c.requests, c.answers, c.refused, c.unsent, c.serving}
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
