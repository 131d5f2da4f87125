package sim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

func TestSamplesSortAgain(t *testing.T) {
	var s Sample
	for _, d := range []protocol.Duration{5, 3, 4} {
		s.add(d)
	}
	if s.Quantile(0.5) != 4 || s.Quantile(0) != 3 || s.Quantile(1) != 5 {
		t.Errorf("got %v", &s)
	}
	s.add(1)
	s.add(9)
	if s.Quantile(0) != 1 || s.Quantile(0.5) != 4 || s.Quantile(1) != 9 || s.Quantile(0.2) != 1 || s.Quantile(0.21) != 3 || s.Mean() != 4 {
		t.Errorf("got %v", &s)
	}
	if none := new(Sample); none.Mean() != 0 || none.Quantile(1) != 0 {
		t.Error("an empty sample is not 0")
	}
}

// A big sample, alone or merged from two, answers as the sorted values would: its
// mean and ends exactly, its quantiles within 0.1 %.
func TestBigSamplesAreClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3*sampleExact).Draw(t, "n")
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		scale := rapid.Int64Range(1, int64(longest)).Draw(t, "scale")
		draw := rapid.Uint64().Draw(t, "seed")
		var whole, one, two Sample
		var values []protocol.Duration
		for i := range n {
			d := protocol.Duration(mix(draw, uint64(i)) % uint64(scale))
			values = append(values, d)
			whole.add(d)
			if i < cut {
				one.add(d)
			} else {
				two.add(d)
			}
		}
		one.merge(&two)
		slices.Sort(values)
		for _, s := range []*Sample{&whole, &one} {
			if s.Count() != n || s.Quantile(0) != values[0] || s.Quantile(1) != values[n-1] {
				t.Fatalf("got %v, want %d from %d to %d", s, n, values[0], values[n-1])
			}
			if math.Abs(float64(s.Mean()-whole.Mean())) > 1e-9*float64(whole.Mean()) {
				t.Fatalf("mean %d, want %d", s.Mean(), whole.Mean())
			}
			for _, q := range []float64{0.01, 0.25, 0.5, 0.99, 0.9999} {
				want := values[min(max(int(q*float64(n)+0.999999)-1, 0), n-1)]
				if got := s.Quantile(q); got > want || float64(got) < 0.999*float64(want)-1 || n <= sampleExact && got != want {
					t.Fatalf("quantile %v of %d: got %d, want %d", q, n, got, want)
				}
			}
		}
	})
}

func TestBucketsAreOrdered(t *testing.T) {
	last := -1
	for _, d := range []protocol.Duration{0, 1, 1023, 1024, 2047, 2048, 2049, 2050, 4095, 4096, 1 << 40, 1<<40 + 1<<31, longest} {
		i := bucket(d)
		if i < last || floor(i) > d || floor(i+1) <= d {
			t.Errorf("%d is in bucket %d, from %d to %d; the one before was %d", d, i, floor(i), floor(i+1), last)
		}
		last = i
	}
}
