package qosmutex

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"padme/tests/poll"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 1, WithMetrics(registry))
	for range 3 {
		unlock(t, lock(t, members[0], "crane"))
	}
	values := func(participant string) map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				name := f.GetName()
				who := ""
				for _, l := range m.Label {
					switch l.GetName() {
					case "participant":
						who = l.GetValue()
					case "lock":
					default:
						name += "/" + l.GetValue()
					}
				}
				if who == participant {
					sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		return sums
	}
	m := values("a")
	for name, want := range map[string]float64{
		"qosmutex_entries_total": 3, "qosmutex_waiting_seconds": 3, "qosmutex_holding_seconds": 3, "qosmutex_losses_total": 0,
		"qosmutex_messages_total/received/Reply": 3, "qosmutex_messages_total/sent/Request": 3, "qosmutex_pending_requests": 0,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	h := lock(t, root, "crane")
	go func() { unlock(t, lock(t, members[0], "crane")) }()
	poll.Until(t, "the queue at the root", func() bool { return values("root")["qosmutex_queue_length/crane"] == 1 })
	if values("a")["qosmutex_pending_requests"] != 1 {
		t.Error("no pending request at the member")
	}
	unlock(t, h)
	for range maxPassages { // the oldest are counted once these follow
		h := lock(t, root, "crane")
		done := make(chan struct{})
		go func() {
			defer close(done)
			unlock(t, lock(t, members[0], "crane"))
		}()
		poll.Until(t, "it waits", func() bool { return waitingAt(root, "crane") == 1 })
		unlock(t, h)
		<-done
	}
	poll.Until(t, "the root measured the handover", func() bool { return values("root")["qosmutex_handover_seconds"] >= 1 })
	closeTopic(t, members[0])
	if m := values("a"); len(m) != 0 {
		t.Errorf("still registered after Close: %v", m)
	}
}
