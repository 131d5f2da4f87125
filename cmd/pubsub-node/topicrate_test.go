package main

import (
	"math"
	"testing"
	"time"
)

func TestMeasuresOfKnownSamples(t *testing.T) {
	begun := time.Now()
	at := func(ms, delay, size int) observation {
		seen := begun.Add(time.Duration(ms) * time.Millisecond)
		return observation{seen, seen.Add(-time.Duration(delay) * time.Millisecond), size}
	}
	seen := []observation{at(0, 5, 100), at(100, 7, 200), at(400, 9, 600)}
	for _, c := range []struct {
		m                             measure
		rate, mean, least, most, sdev float64
		text                          string
	}{
		{hertz(), 5, 0.2, 0.1, 0.3, 0.1, "rate 5.00 Hz  between mean 200ms  min 100ms  max 300ms  stddev 100ms"},
		{bandwidth(), 2000, 300, 100, 600, 216.0247, "rate 2 kB/s  mean 300 B  min 100 B  max 600 B"},
		{delay(), 0, 0.007, 0.005, 0.009, 0.001633, "delay mean 7ms  min 5ms  max 9ms  stddev 1.633ms"},
	} {
		l := c.m.report(seen)
		for _, pair := range [][2]float64{{l.Rate, c.rate}, {l.Mean, c.mean}, {l.Min, c.least}, {l.Max, c.most}, {l.StdDev, c.sdev}} {
			if math.Abs(pair[0]-pair[1]) > 1e-4*math.Max(1, pair[1]) {
				t.Errorf("%s: %+v", c.m.name, l)
			}
		}
		if got := c.m.text(l); got != c.text {
			t.Errorf("%s: %q", c.m.name, got)
		}
	}
}
