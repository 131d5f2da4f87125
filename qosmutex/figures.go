package qosmutex

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/protocol"
)

// figure is the value of one counter or gauge.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

func (f *figure) metric() prometheus.Metric {
	return prometheus.MustNewConstMetric(f.desc, f.kind, f.value, f.labels...)
}

// figures collects those of one topic.
type figures []figure

func (f *figures) counter(d *prometheus.Desc, v uint64, labels ...string) {
	*f = append(*f, figure{d, prometheus.CounterValue, float64(v), labels})
}

func (f *figures) gauge(d *prometheus.Desc, v float64, labels ...string) {
	*f = append(*f, figure{d, prometheus.GaugeValue, v, labels})
}

// sample reads the numbers without blocking on the channel of a collection, and whether this
// participant has been the root.
func (m *metrics) sample() (all figures, rooted bool) {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	all.counter(unsentDesc, m.unsent)
	all.counter(entriesDesc, m.entries)
	all.counter(lossesDesc, m.losses)
	all.gauge(pendingDesc, float64(len(t.calls)-len(t.inside)))
	all.gauge(holdsDesc, float64(len(t.inside)))
	for k := range kinds {
		if kind := protocol.Kind(k); kind.Valid() {
			all.counter(messagesDesc, m.sent[k], kind.String(), "sent")
			all.counter(messagesDesc, m.received[k], kind.String(), "received")
		}
	}
	for i, n := range m.dropped {
		all.counter(droppedDesc, n, dropNames[i])
	}
	if t.machine == nil {
		return all, false
	}
	st := t.machine.Status()
	m.sampleMachine(&all, &st)
	if rooted = st.Counters.Terms > 0 || st.Role == protocol.Root; rooted {
		m.sampleRoot(&all, &st)
	}
	return all, rooted
}

// sampleMachine reads what each participant has to tell. The caller holds mu.
func (m *metrics) sampleMachine(all *figures, st *protocol.Status) {
	c := &st.Counters
	all.counter(termsDesc, c.Terms)
	all.counter(refusedDesc, c.Stale, "stale")
	all.counter(refusedDesc, c.Invalid, "invalid")
	for limit, n := range c.Excesses {
		all.counter(limitedDesc, n, machineLimits[limit].Name)
	}
	all.counter(expiriesDesc, c.Expiries)
	for _, role := range []protocol.Role{protocol.Joining, protocol.Member, protocol.Root} {
		all.gauge(roleDesc, truth(st.Role == role), role.String())
	}
	if m.topic.register != nil {
		all.gauge(registerDesc, truth(m.topic.record.failure != nil))
	}
	others := 0
	for _, r := range st.Resources {
		_, declared := slices.BinarySearch(st.Settings.Resources, r.Resource)
		if declared && m.label.names(r.Resource) {
			all.gauge(queueDesc, float64(r.Waiting), r.Resource)
		} else {
			others += r.Waiting
		}
	}
	all.gauge(queueDesc, float64(others), "")
}

// sampleRoot reads what only a root knows. The caller holds mu.
func (m *metrics) sampleRoot(all *figures, st *protocol.Status) {
	all.counter(recoveriesDesc, st.Counters.Syncs)
	all.counter(renewedDesc, st.Counters.Regenerated)
	all.counter(lockLossesDesc, m.told)
	members, recovering, held := 0, 0, time.Duration(0)
	if st.Role == protocol.Root {
		members = st.Members
		for _, r := range st.Resources {
			if r.Lost {
				recovering++
			}
		}
		for _, n := range m.topic.board.busy {
			if n.busy && n.says.status == StatusHeld {
				held = max(held, time.Since(n.since))
			}
		}
	}
	all.gauge(membersDesc, float64(members))
	all.gauge(recoveringDesc, float64(recovering))
	all.gauge(heldDesc, held.Seconds())
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
