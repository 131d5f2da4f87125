package connection

import (
	"errors"
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
		if spare == 0 || other < spare {
			t.Errorf("%s: %d of the others after %d", name, other, spare)
		}
	}
}
