package broker

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are what mochi does not count.
type counters struct {
	received         atomic.Int64
	refusedConnect   atomic.Int64
	refusedPublish   atomic.Int64
	refusedSubscribe atomic.Int64
	refusedWill      atomic.Int64
	refusedRetain    atomic.Int64
	refusedOrigin    atomic.Int64
	cut              [cuts]atomic.Int64
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("padme_broker_"+name, help, labels, nil)
}

var (
	clientsDesc       = desc("clients", "Connected clients.")
	sessionsDesc      = desc("sessions", "Sessions, those of disconnected clients included.")
	subscriptionsDesc = desc("subscriptions", "Subscriptions of all sessions.")
	retainedDesc      = desc("retained_messages", "Retained messages.")
	retainedBytesDesc = desc("retained_bytes", "What retained messages count in --max-retained, of all users together.")
	inflightDesc      = desc("unacknowledged_messages", "QoS 1 messages that wait for their subscriber's acknowledgement.")
	messagesInDesc    = desc("messages_received_total", "Messages published by clients and not refused.")
	messagesOutDesc   = desc("messages_sent_total", "Messages sent to subscribers.")
	bytesInDesc       = desc("received_bytes_total", "Bytes received from clients.")
	bytesOutDesc      = desc("sent_bytes_total", "Bytes sent to clients.")
	droppedDesc       = desc("messages_dropped_total", "Messages not delivered because a subscriber's queue was full.")
	refusedDesc       = desc("refused_total", "What was refused: connections (password, certificate, too many), pages from another origin, wills, publications, subscriptions, retained messages beyond a user's quota.", "action")
	cutDesc           = desc("cut_total", "Connections ended for what came on them, or did not come.", "reason")
	limitedDesc       = desc("limited_total", "What went beyond a limit, by the flag that sets it.", "limit")
	vanishedDesc      = desc("store_vanished", "1 while the file in the data directory is not at its path any more: what it has is lost when the broker ends.")
	storeErrorsDesc   = desc("store_errors_total", "Writes to the data directory that failed.")
)

// collector reads a broker's figures when they are asked for.
type collector struct{ *Broker }

func (b collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(b, ch) }

func (b collector) Collect(ch chan<- prometheus.Metric) {
	info := b.server.Info
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	emit(clientsDesc, gauge, atomic.LoadInt64(&info.ClientsConnected))
	emit(sessionsDesc, gauge, int64(b.server.Clients.Len()-1)) // without the inline client
	emit(subscriptionsDesc, gauge, atomic.LoadInt64(&info.Subscriptions))
	emit(retainedDesc, gauge, b.access.quota.count())
	emit(retainedBytesDesc, gauge, b.access.quota.total())
	emit(inflightDesc, gauge, b.unacknowledged())
	emit(messagesInDesc, counter, b.counts.received.Load())
	emit(messagesOutDesc, counter, atomic.LoadInt64(&info.MessagesSent))
	emit(bytesInDesc, counter, atomic.LoadInt64(&info.BytesReceived))
	emit(bytesOutDesc, counter, atomic.LoadInt64(&info.BytesSent))
	emit(droppedDesc, counter, atomic.LoadInt64(&info.MessagesDropped)+atomic.LoadInt64(&info.InflightDropped))
	emit(refusedDesc, counter, b.counts.refusedConnect.Load(), "connect")
	emit(refusedDesc, counter, b.counts.refusedPublish.Load(), "publish")
	emit(refusedDesc, counter, b.counts.refusedSubscribe.Load(), "subscribe")
	emit(refusedDesc, counter, b.counts.refusedWill.Load(), "will")
	emit(refusedDesc, counter, b.counts.refusedRetain.Load(), "retain")
	emit(refusedDesc, counter, b.counts.refusedOrigin.Load(), "origin")
	for r := range b.counts.cut {
		emit(cutDesc, counter, b.counts.cut[r].Load(), cutNames[r])
	}
	b.reached.each(func(limit string, n int64) { emit(limitedDesc, counter, n, limit) })
	gone := int64(0)
	if b.store != nil && b.store.vanished.Load() {
		gone = 1
	}
	emit(vanishedDesc, gauge, gone)
	emit(storeErrorsDesc, counter, b.store.failures())
}

// unacknowledged counts; mochi's own counter drifts with inherited sessions.
func (b *Broker) unacknowledged() int64 {
	var n int64
	for _, cl := range b.server.Clients.GetAll() {
		n += int64(cl.State.Inflight.Len())
	}
	return n
}
