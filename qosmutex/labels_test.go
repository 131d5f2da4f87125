package qosmutex

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"padme/pubsub"
	"padme/qosmutex/register/local"
)

// byLock are the values of a metric by its label lock; of a histogram, the count.
func byLock(t *testing.T, r *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, m := range family(t, r, name) {
		for _, l := range m.Label {
			if l.GetName() == "lock" {
				values[l.GetValue()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

func family(t *testing.T, r *prometheus.Registry, name string) []*dto.Metric {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric
		}
	}
	return nil
}

// Whoever names lock topics makes no series without end: beyond a number the topics share one
// label, also when others were closed, and nothing that was counted is forgotten.
func TestLockNamesInMetricsAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("node")
		defer p.Close(ctx)
		metrics := prometheus.NewPedanticRegistry()
		var log bytes.Buffer
		s, end := running(t, p, WithRegister(local.Memory()), clock, WithMetrics(metrics), WithTopicLimits(TopicLimits{Named: 2, Idle: time.Minute}),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		defer end()
		for i := range 5 {
			once(t, topicOf(t, s, fmt.Sprint("invented-", i)), "hook")
		}
		want := func(when string, all map[string]float64) {
			t.Helper()
			for _, name := range []string{"qosmutex_entries_total", "qosmutex_waiting_seconds"} {
				if got := byLock(t, metrics, name); fmt.Sprint(got) != fmt.Sprint(all) {
					t.Errorf("%s, %s: %v, want %v", when, name, got, all)
				}
			}
		}
		if n := gathered(t, metrics, "qosmutex_server_topics_unnamed", ""); n != 3 {
			t.Errorf("%v topics have no name in the metrics", n)
		}
		logged := func(want int) {
			t.Helper()
			if n := strings.Count(log.String(), ` limit=max-metrics-locks most=2 "left out"=1 remedy="read`); n != want {
				t.Errorf("%d lines, not %d: %s", n, want, &log)
			}
		}
		logged(1)
		want("five topics", map[string]float64{"invented-0": 1, "invented-1": 1, "": 3})
		time.Sleep(5 * time.Minute)
		want("closed", map[string]float64{"": 3})
		once(t, topicOf(t, s, "invented-5"), "hook")
		once(t, topicOf(t, s, "invented-0"), "hook")
		logged(2)
		want("soon", map[string]float64{"invented-0": 1, "": 4})
		time.Sleep(labelKept)
		once(t, topicOf(t, s, "invented-5"), "hook")
		want("a day later", map[string]float64{"invented-5": 1, "": 4})
	})
}

// Resources that nobody declared have no series of their own, and of those declared as many
// as there may be.
func TestResourceNamesInMetricsAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("node")
		defer p.Close(ctx)
		metrics := prometheus.NewPedanticRegistry()
		topic, err := Open(ctx, p, "t", Create(), WithResources("crane"), WithOpenResources(), clock, WithMetrics(metrics))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		series := func() (all []string) {
			for _, m := range family(t, metrics, "qosmutex_queue_length") {
				for _, l := range m.Label {
					if l.GetName() == "resource" {
						all = append(all, l.GetValue())
					}
				}
			}
			slices.Sort(all)
			return all
		}
		for i := range 10 {
			once(t, topic, fmt.Sprint("invented-", i))
		}
		if got := series(); !slices.Equal(got, []string{"", "crane"}) {
			t.Errorf("resources in metrics: %q", got)
		}
		for i := range 3 {
			var names []string
			for j := range 40 {
				names = append(names, fmt.Sprint("declared-", i, "-", j))
			}
			if err := topic.Configure(ctx, WithResources(names...)); err != nil {
				t.Fatal(err)
			}
			series()
		}
		if got := series(); len(got) != 1 {
			t.Errorf("new declarations make new series: %q", got)
		}
	})
}

// The root tells of all participants how long they waited and held, and for how long somebody
// has held by now. One that repeats itself or lies changes nothing.
func TestRootMeasuresAllParticipants(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("root"), join("a")
		defer p.Close(ctx)
		defer q.Close(ctx)
		metrics := prometheus.NewPedanticRegistry()
		root, err := Open(ctx, p, "t", Create(), WithResources("crane"), WithNodePriority(0), clock, WithMetrics(metrics))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(ctx)
		a, err := Open(ctx, q, "t", clock)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(ctx)
		held := func() float64 { return byLock(t, metrics, "qosmutex_lock_held_seconds")["t"] }
		begun := time.Now()
		h := lock(t, root, "crane")
		settled := time.Since(begun).Seconds() // a root that has just begun grants nothing yet
		waiter, err := a.Ask("crane")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if got := held(); got < 3.9 || got > 4.1 {
			t.Errorf("held for %v s", got)
		}
		unlock(t, h)
		h, err = waiter.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if got := held(); got < 19.9 || got > 20.1 {
			t.Errorf("held for %v s by another participant", got)
		}
		released := func(h *Hold, seconds float64) {
			t.Helper()
			event := fmt.Sprintf(`{"event":"released","topic":"t","resource":"crane","participant":"a","fence":"%d","held":%v}`, h.Fence(), seconds)
			if err := q.PublishRaw(pubsub.Main, []string{"lock", "t", "events"}, []byte(event), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		unlock(t, h)
		time.Sleep(time.Second)
		released(h, 7) // again
		h = lock(t, a, "crane")
		released(h, 1e300)
		unlock(t, h)
		time.Sleep(time.Second)
		want := func(name string, count uint64, sum float64) {
			t.Helper()
			all := family(t, metrics, name)
			if len(all) != 1 || all[0].Histogram.GetSampleCount() != count || all[0].Histogram.GetSampleSum() < sum-.1 || all[0].Histogram.GetSampleSum() > sum+.1 {
				t.Errorf("%s is %v, want %d, %v s in all", name, all, count, sum)
			}
		}
		want("qosmutex_lock_waiting_seconds", 3, settled+4)
		want("qosmutex_lock_holding_seconds", 2, 24)
		if got := held(); got != 0 {
			t.Errorf("free, and held for %v s", got)
		}
		roles := map[string]float64{}
		for _, m := range family(t, metrics, "qosmutex_role") {
			for _, l := range m.Label {
				if l.GetName() == "role" {
					roles[l.GetValue()] = m.Gauge.GetValue()
				}
			}
		}
		if roles["root"] != 1 || roles["member"] != 0 || roles["joining"] != 0 {
			t.Errorf("roles %v", roles)
		}
		if got := byLock(t, metrics, "qosmutex_members")["t"]; got != 2 {
			t.Errorf("%v members", got)
		}
	})
}
