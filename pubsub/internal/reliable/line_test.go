package reliable

import (
	"errors"
	"fmt"
	"testing"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

// written writes a sample of an instance, and reports whether there was room.
func written(s *Sender, key string, what wire.Status) bool {
	err := s.TryWrite(key, &wire.Envelope{Schema: 7, Options: wire.Options{Status: what}})
	if err != nil && !errors.Is(err, ErrFull) {
		panic(err)
	}
	return err == nil
}

// waits writes a sample for which there is no room.
func waits(s *Sender, key string) *Waiting {
	w, err := s.Write(key, &wire.Envelope{Schema: 7})
	if !errors.Is(err, ErrFull) {
		panic("there is room for " + key)
	}
	return w
}

func (w *Waiting) isOver() bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// fullPair has a reader that lacks all that the history holds.
func fullPair(q Policies) *lossyPair {
	n := newLossyPair(q, Policies{Reliable: true, KeepAll: true})
	n.match()
	for i := range q.MaxSamples {
		if !written(n.s, fmt.Sprint(i), wire.StatusData) {
			panic("it is full")
		}
	}
	return n
}

func (n *lossyPair) acknowledge(upTo uint64) {
	n.s.acknowledged(theReader, &wire.Repair{Op: wire.OpAck, A: upTo})
}

// Room goes to those who wait for it in the order in which they came.
func TestWhoCameFirstGetsTheRoom(t *testing.T) {
	n := fullPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 4})
	a, b, c, d := waits(n.s, "x"), waits(n.s, "y"), waits(n.s, "x"), waits(n.s, "y")
	expect := func(acked uint64, want ...bool) {
		t.Helper()
		n.acknowledge(acked)
		for i, w := range []*Waiting{a, b, c, d} {
			if w.isOver() != want[i] {
				t.Errorf("with %d acknowledged: the write %d is over: %v", acked, i, !want[i])
			}
		}
		if written(n.s, "z", wire.StatusData) {
			t.Errorf("with %d acknowledged: a newcomer has written", acked)
		}
	}
	expect(0, false, false, false, false)
	expect(1, true, false, false, false)
	if over, _, err := b.Leave(); over || err != nil {
		t.Error("one who gives up is told", over, err)
	}
	expect(2, true, false, true, false)
	expect(3, true, false, true, true)
	if over, _, err := d.Leave(); !over || err != nil {
		t.Error("one who has written is told", over, err)
	}
	n.acknowledge(4)
	if !written(n.s, "z", wire.StatusData) || n.s.seq != 8 {
		t.Errorf("a newcomer cannot write, or one who gave up did: the last number is %d", n.s.seq)
	}
}

// Who waits keeps nothing from others that it does not need: not the room for changes of state, nor
// what an instance can spare.
func TestWhoWaitsKeepsNothingFromOthers(t *testing.T) {
	n := fullPair(Policies{Reliable: true, KeepAll: true, Historic: true, DurabilityService: 1, MaxSamples: 4})
	n.acknowledge(4)
	var all []*Waiting
	for i := range 9 {
		all = append(all, waits(n.s, fmt.Sprint("new", i)))
	}
	for range 3 {
		if !written(n.s, "1", wire.StatusData) {
			t.Error("an instance cannot replace its own")
		}
		n.acknowledge(n.s.seq)
	}
	if !written(n.s, "2", wire.StatusDispose) {
		t.Error("an instance cannot be disposed of")
	}
	n.acknowledge(n.s.seq)
	if !all[0].isOver() || all[1].isOver() {
		t.Error("the room of an instance that is over is not for the first of those who wait")
	}
}

// Room that no reader makes is noticed, too.
func TestAWriteMakesRoomForThoseWhoWait(t *testing.T) {
	q := Policies{Reliable: true, KeepAll: true, Historic: true, MaxSamples: 2, DurabilityService: 1}
	n := newLossyPair(q)
	for i := range 2 {
		written(n.s, fmt.Sprint(i), wire.StatusData)
	}
	first, second := waits(n.s, "new"), waits(n.s, "new")
	if !written(n.s, "0", wire.StatusDispose) || !first.isOver() {
		t.Error("a disposal that nobody reads makes no room")
	}
	if !second.isOver() {
		t.Error("a second write of the same instance waits, though it needs no more room")
	}
}

// Nothing is forgotten for a write that fails, or that has to wait for a reader.
func TestAWriteThatFailsCostsNothing(t *testing.T) {
	refused := errors.New("refused")
	for name, hinder := range map[string]func(n *lossyPair){
		"its publication is refused": func(n *lossyPair) {
			n.s.out.Publish = func(string, string, []byte, Sharing) error { return refused }
		},
		"a reader has no room": func(n *lossyPair) {
			n.s.readers[theReader].crowded = true
		},
	} {
		n := fullPair(Policies{Reliable: true, KeepAll: true, Historic: true, DurabilityService: 1, MaxSamples: 4})
		n.acknowledge(4)
		hinder(n)
		if err := n.s.TryWrite("1", &wire.Envelope{Schema: 7}); err == nil {
			t.Fatal(name, "and it is written")
		}
		if len(n.s.history["1"]) != 1 || len(n.s.held) != 4 {
			t.Errorf("%s: what late joiners should get of the instance is forgotten", name)
		}
	}
}

// A write that waited is told what became of it when its turn came.
func TestAWriteThatWaitedIsToldWhyItFails(t *testing.T) {
	n := fullPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 2})
	refused := errors.New("refused")
	n.s.out.Publish = func(string, string, []byte, Sharing) error { return refused }
	a, b := waits(n.s, "x"), waits(n.s, "x")
	n.acknowledge(1)
	for _, w := range []*Waiting{a, b} {
		if over, e, err := w.Leave(); !over || !errors.Is(err, refused) || e.Schema != 7 {
			t.Error("it is told", over, e, err)
		}
	}
	n.s.out.Publish = func(string, string, []byte, Sharing) error { return nil }
	written(n.s, "x", wire.StatusData)
	a = waits(n.s, "x")
	ended := make(chan struct{})
	close(ended)
	_ = n.s.Linger(t.Context(), ended) // nobody acknowledges
	if over, _, err := a.Leave(); !over || !errors.Is(err, failure.ErrClosed) {
		t.Error("after a Close it is told", over, err)
	}
}

// Who finds no room in the outgoing queue is before those who came later, until it has written or given up.
func TestAWriteIsNotOvertakenWhileItWaitsForTheQueue(t *testing.T) {
	for _, end := range []string{"it writes", "it gives up"} {
		n := fullPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 4})
		room := false
		n.s.out.Publish = func(string, string, []byte, Sharing) error {
			if !room {
				return failure.ErrBacklog
			}
			return nil
		}
		first, second := waits(n.s, "x"), waits(n.s, "x")
		n.acknowledge(2)
		room = true
		n.acknowledge(3)
		if !first.isOver() || !errors.Is(first.Err(), failure.ErrBacklog) || second.isOver() || written(n.s, "x", wire.StatusData) {
			t.Errorf("others go on while the first waits for the queue, which has said %v", first.Err())
		}
		if end == "it gives up" {
			first.Leave()
		} else if err := first.Again(); err != nil {
			t.Error(err)
		}
		if !second.isOver() || second.Err() != nil || !written(n.s, "x", wire.StatusData) {
			t.Errorf("%s, and the others wait", end)
		}
	}
}

// Room that one in line makes is first for those before it.
func TestRoomMadeInLineIsForThoseBefore(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true, Historic: true, MaxSamples: 2}, Policies{Reliable: true, KeepAll: true})
	n.match()
	for _, what := range []wire.Status{wire.StatusData, wire.StatusData} {
		written(n.s, "x", what)
	}
	written(n.s, "y", wire.StatusDispose)
	written(n.s, "z", wire.StatusDispose)
	first := waits(n.s, "new")
	dispose, err := n.s.Write("x", &wire.Envelope{Schema: 7, Options: wire.Options{Status: wire.StatusDispose}})
	later := waits(n.s, "new2")
	if dispose == nil {
		t.Fatal(err)
	}
	n.s.Unmatched(theReader, false)
	if !dispose.isOver() || !first.isOver() || !later.isOver() {
		t.Error("the disposal, the first and the later are over:", dispose.isOver(), first.isOver(), later.isOver())
	}
}
