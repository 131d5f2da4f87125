package sim

import (
	"fmt"
	"math/bits"
	"slices"

	"padme/qosmutex/protocol"
)

// Sample is a set of measured durations. Count, Mean, the least and the greatest
// are exact however many there are. Other quantiles are exact up to sampleExact
// values; beyond, so that a long run does not fill the memory, they are too low by
// less than 0.1 %.
type Sample struct {
	values   []protocol.Duration // while there are few
	sorted   bool
	buckets  []uint64 // afterwards: how many lie in each
	count    int
	sum      float64
	least    protocol.Duration
	greatest protocol.Duration
}

const (
	sampleExact = 1 << 14
	sampleBits  = 10 // of a value that tell buckets apart, after its leading one
)

// SampleOf is the set of durations.
func SampleOf(durations ...protocol.Duration) Sample {
	var s Sample
	for _, d := range durations {
		s.add(d)
	}
	return s
}

func (s *Sample) add(d protocol.Duration) {
	if s.count == 0 || d < s.least {
		s.least = d
	}
	s.greatest = max(s.greatest, d)
	s.count++
	s.sum += float64(d)
	if s.buckets != nil {
		s.fill(d, 1)
		return
	}
	s.values = append(s.values, d)
	s.sorted = false
	if len(s.values) > sampleExact {
		s.fold()
	}
}

// fold goes over from values to buckets.
func (s *Sample) fold() {
	s.buckets = make([]uint64, bucket(s.greatest)+1)
	for _, d := range s.values {
		s.fill(d, 1)
	}
	s.values = nil
}

func (s *Sample) fill(d protocol.Duration, n uint64) {
	i := bucket(d)
	if i >= len(s.buckets) {
		s.buckets = append(s.buckets, make([]uint64, i+1-len(s.buckets))...)
	}
	s.buckets[i] += n
}

// bucket is the place of d. Below 2^(sampleBits+1) each value has its own; above,
// each power of two has 2^sampleBits of them.
func bucket(d protocol.Duration) int {
	e := max(0, bits.Len64(uint64(d))-sampleBits-1)
	return e<<sampleBits + int(uint64(d)>>e)
}

// floor is the least value in bucket i.
func floor(i int) protocol.Duration {
	e := max(0, i>>sampleBits-1)
	return protocol.Duration(i-e<<sampleBits) << e
}

// merge adds everything in o.
func (s *Sample) merge(o *Sample) {
	if o.count == 0 {
		return
	}
	if o.buckets == nil {
		for _, d := range o.values {
			s.add(d)
		}
		return
	}
	if s.count == 0 || o.least < s.least {
		s.least = o.least
	}
	s.greatest = max(s.greatest, o.greatest)
	if s.buckets == nil {
		s.fold()
	}
	for i, n := range o.buckets {
		if n > 0 {
			s.fill(floor(i), n)
		}
	}
	s.count += o.count
	s.sum += o.sum
}

// Count is how many were measured.
func (s *Sample) Count() int { return s.count }

// Mean is their mean; 0 if there are none.
func (s *Sample) Mean() protocol.Duration {
	if s.count == 0 {
		return 0
	}
	return protocol.Duration(s.sum / float64(s.count))
}

// Quantile is the least value that at least the share q of them does not exceed:
// 0 the least, 0.5 the median, 1 the greatest; 0 if there are none.
func (s *Sample) Quantile(q float64) protocol.Duration {
	if s.count == 0 {
		return 0
	}
	i := min(max(int(q*float64(s.count)+0.999999)-1, 0), s.count-1)
	if s.buckets == nil {
		if !s.sorted {
			slices.Sort(s.values)
			s.sorted = true
		}
		return s.values[i]
	}
	if i == s.count-1 {
		return s.greatest
	}
	left := uint64(i)
	for b, n := range s.buckets {
		if left < n {
			return max(s.least, floor(b))
		}
		left -= n
	}
	return s.greatest
}

func (s *Sample) String() string {
	return fmt.Sprintf("mean %s median %s max %s (%d)", seconds(s.Mean()), seconds(s.Quantile(0.5)), seconds(s.Quantile(1)), s.Count())
}
