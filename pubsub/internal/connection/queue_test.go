package connection

import (
	"errors"
	"slices"
	"testing"

	"padme/pubsub/internal/failure"
)

// Who waits for room waits until there is some, whatever the room was taken by: else
// Write tries again and again.
func TestRoomIsWaitedForWhateverTookIt(t *testing.T) {
	for name, size := range map[string]int{"many packets": 1, "large packets": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			f := NewQueue()
			f.Open()
			p := Packet{Payload: make([]byte, size)}
			err := f.Put(p)
			for ; err == nil; err = f.Put(p) {
			}
			if !errors.Is(err, failure.ErrBacklog) {
				t.Fatal(err)
			}
			room := f.Turn().Wait(size)
			isRoom := func() bool {
				select {
				case <-room:
					return true
				default:
					return false
				}
			}
			if isRoom() {
				t.Error("there is room when there is none")
			}
			for f.queue.len() > 1 {
				f.Take(false)
			}
			if !isRoom() {
				t.Error("there is no room when there is")
			}
			if f.Put(p) != nil {
				t.Error("there was room, and it could not be taken")
			}
		})
	}
}

// What may take spare room only leaves the rest to others.
func TestSpareMessagesLeaveRoom(t *testing.T) {
	for name, size := range map[string]int{"many packets": 1, "large packets": 1_000_000} {
		f := NewQueue()
		f.Open()
		spare, other := 0, 0
		for f.Put(Packet{Payload: make([]byte, size), Spare: true}) == nil {
			spare++
		}
		for f.Put(Packet{Payload: make([]byte, size)}) == nil {
			other++
		}
		if spare == 0 || spare > MaxQueued/2 || other < spare {
			t.Errorf("%s: %d of the others after %d", name, other, spare)
		}
	}
}

// Spare packets and others take turns, each in their own order, and spare ones do not wait while
// others are held.
func TestSparePacketsTakeTurns(t *testing.T) {
	f := NewQueue()
	f.Open()
	put := func(topic string, spare bool) {
		t.Helper()
		if err := f.Put(Packet{Topic: topic, Payload: []byte{1}, Spare: spare}); err != nil {
			t.Fatal(err)
		}
	}
	take := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if p, _, ok := f.Take(false); p.Topic != w || ok != (w != "") {
				t.Errorf("took %q, %v, want %q", p.Topic, ok, w)
			}
		}
	}
	for _, topic := range []string{"s1", "s2", "s3", "s4"} {
		put(topic, true)
	}
	if f.SpareLen() != 4 {
		t.Errorf("%d spare packets wait", f.SpareLen())
	}
	take("s1")
	put("a", false)
	put("b", false)
	take("a", "s2", "b", "s3")
	f.Hold()
	put("held", false)
	take("s4", "")
	put("s5", true)
	take("s5", "")
	f.Release()
	take("held", "")
	put("s6", true)
	put("c", false)
	if n := f.lost(nil); n != 2 || f.SpareLen() != 0 || f.bytes != 0 {
		t.Errorf("%d were lost, %d spare ones and %d bytes are left", n, f.SpareLen(), f.bytes)
	}
}

// What is run after all that was put before comes after the spare packets among that, and not after
// those that come later.
func TestAnOpComesAfterSparePackets(t *testing.T) {
	f := NewQueue()
	f.Open()
	put := func(p Packet) {
		t.Helper()
		if err := f.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	take := func() {
		p, _, _ := f.Take(false)
		if p.op != nil {
			p.Topic = "op"
		}
		got = append(got, p.Topic)
	}
	for round := range 2 {
		got = nil
		for _, topic := range []string{"s1", "s2", "s3"} {
			put(Packet{Topic: topic, Spare: true})
		}
		put(Packet{Topic: "a"})
		put(Packet{op: func(*Link, *flight) {}})
		put(Packet{Topic: "s4", Spare: true})
		put(Packet{Topic: "s5", Spare: true})
		for range 7 {
			take()
		}
		if i := slices.Index(got, "op"); i < slices.Index(got, "s3") || i < slices.Index(got, "a") || i > slices.Index(got, "s5") {
			t.Errorf("round %d: %q", round, got)
		}
		put(Packet{Topic: "s6", Spare: true})
		f.lost(nil)
		f.Open()
	}
}
