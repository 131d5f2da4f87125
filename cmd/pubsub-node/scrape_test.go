package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Whoever asks for the metrics without a pause has them collected ten times a second for each
// of two kinds of answers, and no more, and everybody gets one.
func TestMetricsAreCollectedSeldom(t *testing.T) {
	var collected atomic.Int64
	registry := metricsOfProcess()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "collected"}, func() float64 { return float64(collected.Add(1)) }))
	f := &metricsFlags{address: "127.0.0.1:0", clients: 16}
	stop, err := f.serve(t.Context(), registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	get := func(compressed bool) {
		client := &http.Client{Transport: &http.Transport{DisableCompression: !compressed}}
		answer, err := client.Get("http://" + f.address + "/metrics")
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || answer.Uncompressed != compressed || !bytes.Contains(body, []byte("\ncollected ")) {
			t.Errorf("%s, uncompressed %t, %d bytes: %v", answer.Status, answer.Uncompressed, len(body), err)
		}
	}
	begun := time.Now()
	var strangers sync.WaitGroup
	for i := range 4 {
		strangers.Go(func() {
			for range 50 {
				get(i%2 == 0)
			}
		})
	}
	strangers.Wait()
	if most := 2 + 2*int64(time.Since(begun)/collectEvery); collected.Load() > most {
		t.Errorf("collected %d times in %v, at most %d are needed", collected.Load(), time.Since(begun), most)
	}
	time.Sleep(collectEvery)
	before := collected.Load()
	get(true)
	if collected.Load() != before+1 {
		t.Error("the answer is older than it may be")
	}
}
