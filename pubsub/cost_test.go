package pubsub

import (
	"runtime"
	"testing"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// What a reliable sample costs its two ends, from Write until it is taken, beside a publish
// of the bare client at QoS 1: a small one less than half of the allocations, a large one as
// much memory. Processor time, which depends on what else the machine does, is left to
// BenchmarkRawAndReliable.
func TestASampleCostsLessThanABarePublish(t *testing.T) {
	if bubble.RaceDetector {
		t.Skip("the race detector allocates, too: the tests run without it as well")
	}
	brokers.Both(t, func(t *testing.T, start func() string) {
		for _, c := range []struct {
			what              string
			size, burst, most int // in tenths of the bare client's
			used              func() float64
		}{
			{"allocations", 64, 2000, 5, allocations},
			{"bytes allocated", 64 << 10, 50, 12, allocated},
		} {
			url := start()
			raw, ours := &way{name: "raw"}, &way{name: "ours"}
			rawWay(t, raw, url, c.size)
			reliableWay(t, ours, url, c.size)
			ofRaw, ofOurs := 0.0, 0.0
			for i := range 5 {
				before := c.used()
				raw.burst(c.burst)
				between := c.used()
				ours.burst(c.burst)
				if i > 0 { // nobody pays for the first messages
					ofRaw, ofOurs = ofRaw+between-before, ofOurs+c.used()-between
				}
			}
			each := 4 * float64(c.burst)
			t.Logf("%d B: %.0f %s a sample, %.0f of the bare client", c.size, ofOurs/each, c.what, ofRaw/each)
			if 10*ofOurs > float64(c.most)*ofRaw {
				t.Errorf("%.2f times those of the bare client", ofOurs/ofRaw)
			}
		}
	})
}

func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}

func allocated() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.TotalAlloc)
}
