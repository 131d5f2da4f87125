package pubsub

import (
	"slices"
	"testing"
	"time"
)

// What a transient writer has the broker retain goes where it goes.
func TestATransientWriterTakesAlongWhatIsRetained(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, fuse := d.joinBy("a")
		b := d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), in(transient, "p1"))
		was := readerOf(t, topicOf[pose](t, b, "p"), in(transient, "p1"))
		for i := range 5 {
			write(t, w, poseOf("r1", float64(i)))
			write(t, w, poseOf("r2", float64(10+i)))
		}
		settle(time.Second)
		xs(was)
		moveWriter(t, w, "p2", "p3")
		write(t, w, poseOf("r1", 5))
		settle(time.Second)
		moveWriter(t, w, "p3")
		settle(time.Second)
		fuse.blow(true) // it is offline, and then is no more
		settle(time.Minute)
		for partition, want := range map[string][]float64{"p1": nil, "p2": nil, "p3": {14, 5}} {
			late := readerOf(t, topicOf[pose](t, b, "p"), in(transient, partition))
			settle(time.Second)
			expectXs(t, "a late joiner in "+partition, late, want...)
			late.Close()
		}
		expectXs(t, "where it was at first", was)
		late := readerOf(t, topicOf[pose](t, b, "p"), in(transient, "p2"))
		settle(time.Second)
		for range 2 {
			moveReader(t, late, "p3", "p2")
			settle(time.Second)
			expectXs(t, "one that has moved in", late, 14, 5)
			moveReader(t, late, "p?")
			settle(time.Second)
			expectXs(t, "one that goes on", late)
			moveReader(t, late, "p1")
			settle(time.Second)
			expectXs(t, "one that has moved out", late)
		}
		silent(t, "the reader", late.ep.events)
	})
}

// The living are not taken for the dead because a reader moves in.
func TestATransientReaderMovesInWithTheLiving(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), in(transientDepth(2), "p1"))
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), in(transient, "p2"))
		for i := range 3 {
			write(t, w, poseOf("r", float64(i)))
		}
		settle(time.Second)
		moveReader(t, r, "p1")
		settle(time.Second)
		got := r.Take(9)
		if len(got) != 2 || got[0].Info.State != Alive || got[0].Data.X != 1 || got[1].Data.X != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// A broker that loses its memory gets back what is retained, where the writer is.
func TestAMoveOutlivesABrokersMemory(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), in(transient, "p1"))
		b := d.join("b")
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		moveWriter(t, w, "p2")
		settle(time.Second)
		d.restart()
		settle(time.Minute)
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		expect := func(partition string, want ...float64) {
			late := readerOf(t, topicOf[pose](t, b, "p"), in(transient, partition))
			settle(time.Second)
			expectXs(t, partition, late, want...)
		}
		expect("p1")
		expect("p2", 1)
	})
}

// Nothing is lost in silence although one of the two is away when the writer moves.
func TestAReaderHearsWhatItDoesNotGetOfAWriterThatMoves(t *testing.T) {
	for _, away := range []string{"the reader", "the writer"} {
		t.Run(away, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, of := d.joinBy("a")
				b, or := d.joinBy("b")
				w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
				r := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
				awaitReaders(t, w, 1)
				write(t, w, poseOf("r", 1))
				settle(time.Second)
				fuse := or
				if away == "the writer" {
					fuse = of
				}
				fuse.blow(true)
				settle(time.Second)
				for i := range 5 {
					write(t, w, poseOf("r", float64(i+2)))
				}
				moveWriter(t, w, "elsewhere")
				settle(time.Second)
				fuse.blow(false)
				settle(time.Minute)
				expectXs(t, "the reader", r, 1)
				ended, lost := 0, []SampleLost(nil)
				for _, e := range drain(r.ep.events) {
					switch e := e.(type) {
					case Unmatched:
						ended++
					case SampleLost:
						lost = append(lost, e)
					}
				}
				if ended != 1 || !slices.Equal(lost, []SampleLost{{w.GUID(), 5}}) {
					t.Errorf("unmatched %d times, told %v", ended, lost)
				}
				moveWriter(t, w)
				settle(time.Minute)
				write(t, w, poseOf("r", 9))
				settle(time.Second)
				expectXs(t, "the reader, matched again", r, 9)
				silent(t, "the reader", r.ep.events)
				if err := w.Close(testContext(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A change that is made offline is announced with the reconnection.
func TestAReaderThatMovesWhileItsWriterIsAway(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, fuse := d.joinBy("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), in(keepAll, "p1"))
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), in(keepAll, "p1"))
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		expectXs(t, "before", r, 1)
		fuse.blow(true)
		settle(time.Second)
		write(t, w, poseOf("r", 2))
		moveReader(t, r, "p2")
		moveReader(t, r, "p1") // the writer never hears that it was gone
		settle(time.Second)
		fuse.blow(false)
		settle(time.Minute)
		write(t, w, poseOf("r", 3))
		settle(time.Second)
		if got := xs(r); len(got) == 0 || got[len(got)-1] != 3 || slices.Contains(got, 1) {
			t.Errorf("got %v", got)
		}
		silent(t, "the reader", r.ep.events)
	})
}
