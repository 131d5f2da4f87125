package quorum

import (
	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/register/caspaxos"
)

var (
	missingDesc = prometheus.NewDesc("qosmutex_voters_missing", "Whether another voter does not answer this one.", []string{"participant", "voter"}, nil)
	votingDesc  = prometheus.NewDesc("qosmutex_voter_votes", "Whether this voter votes.", []string{"participant"}, nil)
	syncDesc    = prometheus.NewDesc("qosmutex_voter_sync_seconds", "The slowest of the last writes of this voter to its disk.", []string{"participant"}, nil)
)

// Describe makes a Voter a prometheus.Collector.
func (v *Voter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{missingDesc, votingDesc, syncDesc} {
		ch <- d
	}
}

// Collect makes a Voter a prometheus.Collector.
func (v *Voter) Collect(ch chan<- prometheus.Metric) {
	s := v.Status()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{v.opts.Self}, labels...)...)
	}
	others := s.Listed
	if s.Config != nil {
		others = s.Config.IDs()
	}
	missing := map[string]float64{}
	for _, id := range s.Missing {
		missing[id] = 1
	}
	for _, id := range others {
		if id != v.opts.Self {
			gauge(missingDesc, missing[id], id)
		}
	}
	votes := 0.0
	if s.Phase == caspaxos.Voting && v.Err() == nil {
		votes = 1
	}
	gauge(votingDesc, votes)
	gauge(syncDesc, v.slowestSync().Seconds())
}
