package pubsub

import (
	"errors"
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/wire"
)

// Of many goroutines that write to one writer with a full history, each has its turn.
func TestEachWriteToAFullHistoryHasItsTurn(t *testing.T) {
	const writers = 8
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 5, MaxBlocking: time.Minute}
		w := writerOf(t, topicOf[pose](t, d.join("w"), "t"), q)
		r := readerOf(t, topicOf[pose](t, d.join("r"), "t"), q)
		awaitReaders(t, w, 1)
		wrote := make(chan int, 100)
		for i := range writers {
			go func() {
				for w.Write(t.Context(), poseOf("r", float64(i))) == nil {
					wrote <- i
				}
			}()
		}
		settle(time.Second)
		if err := w.TryWrite(poseOf("r", 0)); !errors.Is(err, ErrTimeout) {
			t.Errorf("a write that does not wait: %v", err)
		}
		for len(wrote) > 0 {
			<-wrote
		}
		var passed [writers]int // how many others have written since
		for range 20 * writers {
			if got := r.Take(1); len(got) != 1 {
				t.Fatal("nothing arrives")
			}
			settle(20 * time.Millisecond)
			for len(wrote) > 0 {
				who := <-wrote
				for i := range passed {
					passed[i]++
				}
				passed[who] = 0
			}
			if most := slices.Max(passed[:]); most > writers {
				t.Fatalf("%d others have written since somebody did", most)
			}
		}
	})
}

// withFullQueue does something while a participant's outgoing queue has no room.
func withFullQueue(p *Participant, do func()) {
	q := p.exchange.samples
	q.Hold()
	defer q.Release()
	for _, size := range []int{1 << 20, 1 << 10, 1} {
		for q.Put(connection.Packet{Topic: p.root + "/junk", Payload: make([]byte, size), QoS: 1}) == nil {
		}
	}
	do()
}

// fullPairOf is a writer whose history, of one sample, is full, as the reader's is.
func fullPairOf(t *testing.T, d *world, maxBlocking time.Duration) (*Participant, *Writer[pose], *Reader[pose]) {
	t.Helper()
	q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 1, MaxBlocking: maxBlocking}
	p := d.join("w")
	w := writerOf(t, topicOf[pose](t, p, "t"), q)
	r := readerOf(t, topicOf[pose](t, d.join("r"), "t"), q)
	awaitReaders(t, w, 1)
	for range 2 {
		write(t, w, poseOf("r", -1))
		settle(10 * time.Millisecond)
	}
	return p, w, r
}

// The order is the same if there was room in the history while the outgoing queue had none.
func TestWritesKeepTheirOrderWithAFullQueue(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		p, w, r := fullPairOf(t, d, time.Hour)
		want := []float64{-1, -1}
		for i := range 50 {
			go func() {
				if err := w.Write(t.Context(), poseOf("r", float64(i))); err != nil {
					t.Error(err)
				}
			}()
			settle(time.Millisecond)
			want = append(want, float64(i))
		}
		withFullQueue(p, func() {
			w.send.Handle(wire.GUID(r.GUID()), &wire.Repair{Op: wire.OpAck, A: 2})
			settle(time.Millisecond)
			if err := w.TryWrite(poseOf("r", 0)); !errors.Is(err, ErrTimeout) {
				t.Errorf("a write that does not wait: %v", err)
			}
		})
		var got []float64
		for range want {
			settle(200 * time.Millisecond)
			for _, s := range r.Take(1) {
				got = append(got, s.Data.X)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the reader got %v", got)
		}
	})
}

// A write that is served in the moment in which its time is over, and finds the queue full, is too late.
func TestMaxBlockingEndsAWriteThatIsServed(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		const writers = 100
		p, w, r := fullPairOf(t, d, time.Second)
		withFullQueue(p, func() {
			errs := make(chan error, writers)
			for range writers {
				go func() { errs <- w.Write(t.Context(), poseOf("r", 1)) }()
			}
			time.Sleep(time.Second)
			w.send.Handle(wire.GUID(r.GUID()), &wire.Repair{Op: wire.OpAck, A: 2})
			settle(time.Second)
			if len(errs) < writers {
				t.Fatalf("%d of %d writes go on waiting after MaxBlocking", writers-len(errs), writers)
			}
			for range writers {
				if err := <-errs; !errors.Is(err, ErrTimeout) {
					t.Error(err)
				}
			}
		})
	})
}
