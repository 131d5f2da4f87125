package quorum

import (
	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/register/caspaxos"
)

var (
	missingDesc  = prometheus.NewDesc("qosmutex_voters_missing", "Whether another voter does not answer this one.", []string{"participant", "voter"}, nil)
	votingDesc   = prometheus.NewDesc("qosmutex_voter_votes", "Whether this voter votes.", []string{"participant"}, nil)
	refusedDesc  = prometheus.NewDesc("qosmutex_voter_refused_total", "Messages that this voter dropped as their sender floods it or they came too late, and requests of those who have created too many names.", []string{"participant", "reason"}, nil)
	limitedDesc  = prometheus.NewDesc("qosmutex_voter_limited_total", "Messages that this voter dropped, and requests and ballots that it refused, by the limit that their sender was beyond.", []string{"participant", "limit"}, nil)
	namesDesc    = prometheus.NewDesc("qosmutex_voter_names", "Names that this voter keeps, which are never deleted.", []string{"participant"}, nil)
	mostDesc     = prometheus.NewDesc("qosmutex_voter_names_limit", "Names that this voter keeps at most.", []string{"participant"}, nil)
	vanishedDesc = prometheus.NewDesc("qosmutex_voter_file_vanished", "1 while the file of this voter is not at its path any more: it loses its vote when it ends.", []string{"participant"}, nil)
	syncDesc     = prometheus.NewDesc("qosmutex_voter_sync_seconds", "The slowest of the last writes of this voter to its disk.", []string{"participant"}, nil)
)

// Describe makes a Voter a prometheus.Collector.
func (v *Voter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{missingDesc, votingDesc, vanishedDesc, syncDesc, refusedDesc, limitedDesc, namesDesc, mostDesc} {
		ch <- d
	}
}

// Collect makes a Voter a prometheus.Collector.
func (v *Voter) Collect(ch chan<- prometheus.Metric) {
	s := v.Status()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{v.opts.Self}, labels...)...)
	}
	others := known(&s)
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
	gone := 0.0
	if v.Vanished() != nil {
		gone = 1
	}
	gauge(vanishedDesc, gone)
	gauge(syncDesc, v.slowestSync().Seconds())
	gauge(namesDesc, float64(s.Names))
	gauge(mostDesc, caspaxos.MaxKeys)
	counter := func(d *prometheus.Desc, value uint64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), v.opts.Self, label)
	}
	counter(refusedDesc, v.turns.floods.Load(), "flood")
	counter(refusedDesc, v.turns.late.Load(), "late")
	counter(refusedDesc, s.Denied, "names")
	v.reached.Each(func(limit string, n uint64) { counter(limitedDesc, n, limit) })
}
