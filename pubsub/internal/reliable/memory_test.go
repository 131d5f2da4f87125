package reliable

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"padme/pubsub/internal/wire"
)

// The memory of a sample is used for a later one only when it is not read any more.
func TestMemoryIsUsedAgainWhenNobodyLooks(t *testing.T) {
	reliable := Policies{Reliable: true, KeepAll: true}
	for _, tc := range []struct {
		name   string
		q      Policies
		passed func(place uint64) uint64 // when the last one is at place
		again  bool
	}{
		{"with the broker", reliable, func(place uint64) uint64 { return place }, true},
		{"on its way", reliable, func(uint64) uint64 { return 0 }, false},
		{"no connection", reliable, func(uint64) uint64 { return math.MaxUint64 }, false},
		{"keep last, on its way", Policies{Reliable: true, Depth: 1}, func(uint64) uint64 { return 0 }, false},
		{"retained", Policies{Reliable: true, Historic: true, Transient: true, Depth: 1}, func(place uint64) uint64 { return place }, false},
		{"best effort", Policies{Historic: true, Depth: 1}, func(place uint64) uint64 { return place }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newLossyPair(tc.q)
			var place uint64
			var sent, want [][]byte
			publish := n.s.out.Publish
			remember := func(partition, key string, payload []byte) error {
				place++
				sent, want = append(sent, payload), append(want, bytes.Clone(payload))
				return publish(partition, key, payload, Alone)
			}
			n.s.out.Publish = func(partition, key string, payload []byte, _ Sharing) error { return remember(partition, key, payload) }
			n.s.out.Retain = remember
			n.s.out.Placed = func() uint64 { return place }
			n.s.out.Passed = func() uint64 { return tc.passed(place) }
			n.match()
			n.heal()
			const written = 40 // the pool may drop some
			for i := range written {
				e := &wire.Envelope{Schema: 7, Buffer: NewBuffer()}
				e.Buffer.WriteString(fmt.Sprintf("%0100000d", i))
				e.Body = e.Buffer.Body()
				if err := n.s.TryWrite("k", e); err != nil {
					t.Fatal(err)
				}
				Free(e.Buffer)
				n.heal()
			}
			changed := 0
			for i := range sent {
				if !bytes.Equal(sent[i], want[i]) {
					changed++
				}
			}
			if len(sent) < written || (changed > 0) != tc.again {
				t.Errorf("%d of %d have changed", changed, len(sent))
			}
		})
	}
}

// What cannot be written yet stays the caller's.
func TestAFullHistoryTakesNoMemory(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 1})
	n.match()
	n.heal()
	for i := range 2 {
		e := &wire.Envelope{Schema: 7, Buffer: NewBuffer()}
		e.Buffer.Write(make([]byte, minTaken))
		e.Body = e.Buffer.Body()
		err := n.s.TryWrite("k", e)
		if full := i == 1; (err != nil) != full || (e.Buffer != nil) != full {
			t.Errorf("sample %d: %v, buffer left: %v", i, err, e.Buffer != nil)
		}
	}
}
