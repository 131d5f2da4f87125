package connection

import (
	"fmt"
	"testing"
)

func TestTheSideLaneCoalesces(t *testing.T) {
	dropped := 0
	c := NewLatest(func() { dropped++ })
	for i := range 10 {
		put(t, c, Packet{Topic: fmt.Sprint(i % 2), Payload: []byte{byte(i)}, Retain: true})
	}
	for i := range sideEvents + 3 {
		put(t, c, Packet{Topic: "e", Payload: []byte{byte(i)}})
	}
	if dropped != 3 {
		t.Errorf("%d dropped, want the 3 oldest", dropped)
	}
	for _, want := range []byte{8, 9, 3} {
		if p, _, ok := c.Take(true); !ok || p.Payload[0] != want {
			t.Errorf("took %v, want %d", p, want)
		}
	}
	// A lost connection brings back the latest retained message of each topic, and
	// the events that were not acknowledged.
	put(t, c, Packet{Topic: "0", Payload: []byte{20}, Retain: true})
	c.lost([]Packet{{Topic: "0", Payload: []byte{8}, Retain: true}, {Topic: "1", Payload: []byte{9}, Retain: true}, {Topic: "1", Payload: []byte{11}, Retain: true}, {Topic: "e", Payload: []byte{2}}})
	for _, want := range []byte{20, 11, 2, 4} {
		if p, _, ok := c.Take(true); !ok || p.Payload[0] != want {
			t.Errorf("took %v, want %d", p, want)
		}
	}
}

func put(t *testing.T, o Outbox, p Packet) {
	t.Helper()
	if err := o.Put(p); err != nil {
		t.Fatal(err)
	}
}
