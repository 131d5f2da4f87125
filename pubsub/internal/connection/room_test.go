package connection

import (
	"errors"
	"testing"

	"padme/pubsub/internal/failure"
)

// fill puts packets until there is no room, and returns how many.
func fill(t *testing.T, f *Queue, size int) (n int) {
	t.Helper()
	for {
		err := f.Put(Packet{Payload: make([]byte, size)})
		if errors.Is(err, failure.ErrBacklog) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// called counts those of a few channels that are closed.
func called(turns ...<-chan struct{}) (n int) {
	for _, turn := range turns {
		select {
		case <-turn:
			n++
		default:
		}
	}
	return n
}

// crowded is a full queue for which so many wait.
func crowded(t *testing.T, n, size int) (f *Queue, turns []*Turn, again []<-chan struct{}) {
	t.Helper()
	f = NewQueue()
	f.Open()
	fill(t, f, size)
	for range n {
		turn := f.Turn()
		turns, again = append(turns, turn), append(again, turn.Wait(size))
	}
	return f, turns, again
}

// Of those who wait for room one goes on for each packet that leaves, in turn: at a slow link
// seconds pass until half of the queue has left, and there are as many as had to wait.
func TestOneGoesOnForEachPacketThatLeaves(t *testing.T) {
	for name, size := range map[string]int{"many packets": 1, "large packets": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, turns, again := crowded(t, 4, size)
			turns[1].Leave()
			for _, n := range []int{0, 2, 3} {
				if called(again[n]) > 0 {
					t.Errorf("number %d goes on before there is room", n)
				}
				f.Take(false)
				if called(again[n]) == 0 {
					t.Errorf("number %d waits although there is room", n)
				}
				if err := f.Put(Packet{Payload: make([]byte, size)}); err != nil {
					t.Error(err)
				}
				turns[n].Leave()
			}
			if called(again[1]) > 0 {
				t.Error("one that does not wait any more had a turn")
			}
			if f.Yield(size) != nil {
				t.Error("somebody has a turn after all have left")
			}
		})
	}
}

// As many go on as there is room for, though none of them has taken it yet.
func TestAsManyGoOnAsThereIsRoomFor(t *testing.T) {
	for name, size := range map[string]int{"many packets": 1, "large packets": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, turns, again := crowded(t, 12, size)
			for left := 1; left <= 5; left++ {
				if f.Take(false); called(again...) != left {
					t.Errorf("%d went on when %d had left", called(again...), left)
				}
			}
			if turns[0].Leave(); called(again...) != 6 {
				t.Errorf("%d went on when one had left its room", called(again...))
			}
		})
	}
}

// Who waits for much room is not called for less, and who waits for little not for as much.
func TestEachWaitsForTheRoomThatItNeeds(t *testing.T) {
	for name, c := range map[string]struct{ size, left int }{"much": {900_000, 5}, "little": {1_000, 1}} {
		t.Run(name, func(t *testing.T) {
			f := NewQueue()
			f.Open()
			fill(t, f, 200_000)
			fill(t, f, 1_000)
			err := f.Put(Packet{Payload: make([]byte, 1_000_000)}) // that is given up
			if full, ok := errors.AsType[*NoRoom](err); !ok || full.Size != 1_000_000 {
				t.Fatal(err)
			}
			again := f.Turn().Wait(c.size)
			left := 0
			for ; called(again) == 0; left++ {
				f.Take(false)
			}
			if err := f.Put(Packet{Payload: make([]byte, c.size)}); err != nil || left != c.left {
				t.Errorf("%d have left, and %v", left, err)
			}
		})
	}
}

// Who is called and finds the room taken goes on before those who came later, and who comes
// now yields.
func TestWhoTriesInVainKeepsItsTurn(t *testing.T) {
	const small, large = 10_000, 900_000
	f := NewQueue()
	f.Open()
	fill(t, f, small)
	first, second := f.Turn(), f.Turn()
	again, later := first.Wait(large), second.Wait(small)
	left := 0
	for ; called(again) == 0; left++ {
		if f.Yield(small) == nil {
			t.Fatal("there is room for who comes now")
		}
		f.Take(false)
	}
	for range left {
		if err := f.Put(Packet{Payload: make([]byte, small)}); err != nil {
			t.Fatal(err)
		}
	}
	for again = first.Wait(large); called(again) == 0; f.Take(false) {
		if called(later) > 0 {
			t.Fatal("who came later is called first")
		}
	}
	if err := f.Put(Packet{Payload: make([]byte, large)}); err != nil {
		t.Error(err)
	}
	if first.Leave(); called(later) > 0 {
		t.Error("there is no room, and one goes on")
	}
	if second.Leave(); f.Yield(small) != nil {
		t.Error("nobody waits, and one has to yield")
	}
}

// All who wait go on when the connection is lost.
func TestAllGoOnWithoutAConnection(t *testing.T) {
	f := NewQueue()
	f.Open()
	fill(t, f, 1)
	var again []<-chan struct{}
	for range MaxQueued + 1 {
		again = append(again, f.Turn().Wait(1))
	}
	if f.lost(nil); called(again...) != len(again) {
		t.Errorf("%d of %d go on", called(again...), len(again))
	}
}
