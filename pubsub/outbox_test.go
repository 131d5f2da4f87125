package pubsub

import (
	"errors"
	"testing"
)

// Who waits for room waits until there is some, whatever the room was taken by: else
// Write tries again and again.
func TestRoomIsWaitedForWhateverTookIt(t *testing.T) {
	for name, size := range map[string]int{"many packets": 1, "large packets": MaxPayload} {
		t.Run(name, func(t *testing.T) {
			f := newFIFO()
			f.open()
			p := packet{payload: make([]byte, size)}
			err := f.put(p)
			for ; err == nil; err = f.put(p) {
			}
			if !errors.Is(err, ErrBacklog) {
				t.Fatal(err)
			}
			room := f.room()
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
				f.take(false)
			}
			if !isRoom() {
				t.Error("there is no room when there is")
			}
			if f.put(p) != nil {
				t.Error("there was room, and it could not be taken")
			}
		})
	}
}
