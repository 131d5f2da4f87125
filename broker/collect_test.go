package broker

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What the metrics cost does not grow with what is retained, for strangers may ask for them.
func TestMetricsCopyNothingRetained(t *testing.T) {
	registry := prometheus.NewRegistry()
	b, err := Start(context.Background(), Config{Metrics: registry, Limits: Limits{Retained: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(context.Background()) }()
	const n = 10_000
	for i := range n {
		if err := b.server.Publish(fmt.Sprint("r/", i), []byte("x"), true, 0); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := registry.Gather(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 100*n {
		t.Errorf("%d bytes for %d messages", took, n)
	}
}
