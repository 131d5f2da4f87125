package pubsub

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// The connection is lost while or before Close waits, and comes back in its time.
func TestCloseGoesOnAfterAnOutage(t *testing.T) {
	for name, shut := range map[string]func(context.Context, *Writer[pose], *Participant) error{
		"writer":      func(ctx context.Context, w *Writer[pose], _ *Participant) error { return w.Close(ctx) },
		"participant": func(ctx context.Context, _ *Writer[pose], p *Participant) error { return p.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), everything)
				p, way := d.joinBy("a")
				w := writerOf(t, topicOf[pose](t, p, "p"), everything)
				awaitReaders(t, w, 1)
				way.Cut()
				pass(time.Millisecond)
				for i := range 3 {
					write(t, w, poseOf("r", float64(i+1)))
				}
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- shut(ctx, w, p) }()
				pass(2 * time.Second)
				if len(done) > 0 {
					t.Fatalf("after 2 s of 20, offline: %v", <-done)
				}
				way.Restore()
				if err := receive(t, done, "the end of Close"); err != nil {
					t.Errorf("Close: %v", err)
				}
				pass(time.Second)
				if got := values(r); !slices.Equal(got, []float64{1, 2, 3}) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// Nobody comes back: who gives no deadline waits for as long as for a reader that is silent.
func TestCloseEndsInAnOutage(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), everything)
		p, way := d.joinBy("a")
		w := writerOf(t, topicOf[pose](t, p, "p"), everything)
		awaitReaders(t, w, 1)
		way.Cut()
		pass(time.Millisecond)
		write(t, w, poseOf("r", 1))
		began := time.Now()
		err := p.Close(context.Background())
		if took := time.Since(began); took > 2*time.Second || !errors.Is(err, ErrUndelivered) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Offline with nothing to deliver there is nothing to wait for.
func TestCloseOfWhatIsDeliveredWaitsForNoConnection(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), everything)
		p, way := d.joinBy("a")
		w := writerOf(t, topicOf[pose](t, p, "p"), everything)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		pass(time.Second)
		way.Cut()
		pass(time.Millisecond)
		began := time.Now()
		if err := closeSoon(p); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The connection of the samples is away, and they were repeated over the other one.
func TestCloseOfWhatIsAcknowledgedIsNoError(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), everything)
		var dials atomic.Int32
		var second net.Conn
		p := join(t, "", "a", WithDialer(func(ctx context.Context) (net.Conn, error) {
			n := dials.Add(1)
			if n > 2 {
				return nil, errors.New("the cable is cut")
			}
			conn, err := d.b.Dial(ctx)
			if n == 2 {
				second = conn
			}
			return conn, err
		}))
		w := writerOf(t, topicOf[pose](t, p, "p"), everything)
		awaitReaders(t, w, 1)
		second.Close()
		pass(time.Millisecond)
		write(t, w, poseOf("r", 1))
		if err := w.Close(testContext(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
		if got := values(r); !slices.Equal(got, []float64{1}) {
			t.Errorf("got %v", got)
		}
	})
}

// A reader is away for so long that its writer does not wait for it, and that one is closed:
// when the reader is back, it hears how much it has missed.
func TestAReaderThatWasAwayHearsWhatItMissed(t *testing.T) {
	for _, closes := range []string{"the participant", "the writer before its participant", "before the reader is given up"} {
		t.Run(closes, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, idle := d.join("a"), d.join("idle")
				b, fuse := d.joinBy("b")
				w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
				complete := writerOf(t, topicOf[pose](t, idle, "p"), keepAll)
				r := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
				awaitReaders(t, w, 1)
				awaitReaders(t, complete, 1)
				write(t, complete, poseOf("r", 7))
				settle(time.Second)
				write(t, w, poseOf("r", 0))
				settle(time.Second)
				expectXs(t, "before", r, 7, 0)
				fuse.blow(true)
				for i := range 20 {
					write(t, w, poseOf("r", float64(i)))
				}
				if closes != "before the reader is given up" {
					settle(time.Minute)
				}
				write(t, w, poseOf("r", 20))
				if closes == "the writer before its participant" {
					_ = w.Close(testContext(t))
				}
				soon, cancel := context.WithTimeout(testContext(t), 2*time.Second)
				defer cancel()
				_ = a.Close(soon)
				_ = idle.Close(testContext(t))
				settle(time.Minute)
				fuse.blow(false)
				settle(time.Minute)
				expectXs(t, "afterwards", r)
				lost := uint64(0)
				for _, l := range told[SampleLost](r.ep.events) {
					if lost += l.Count; l.Writer.Participant != "a" {
						t.Errorf("lost of %v", l.Writer)
					}
				}
				if lost != 21 {
					t.Errorf("%d samples are told to be lost, want 21", lost)
				}
			})
		})
	}
}

// Who lacks nothing is not told that it does: the broker has the values of a transient writer,
// and samples of other instances are not for a narrow reader.
func TestAReaderThatWasAwayIsNotToldOfWhatItHas(t *testing.T) {
	transient := QoS{Reliability: Reliable, Durability: Transient, Depth: 100}
	for _, c := range []struct {
		name string
		qos  QoS
		opts []EndpointOption
		want []float64
	}{
		{"transient", transient, nil, []float64{0, 1, 2, 3}},
		{"narrow", keepAll, []EndpointOption{WithInstance(pose{Robot: "r"})}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a := d.join("a")
				b, fuse := d.joinBy("b")
				w := writerOf(t, topicOf[pose](t, a, "p"), c.qos)
				r := newReader(t, topicOf[pose](t, b, "p"), append(c.opts, WithQoS(c.qos))...)
				awaitReaders(t, w, 1)
				write(t, w, poseOf("r", 7))
				settle(time.Second)
				expectXs(t, "before", r, 7)
				fuse.blow(true)
				for i := range 3 {
					write(t, w, poseOf(name("other", i), float64(i)))
				}
				settle(time.Minute)
				write(t, w, poseOf("last", 3)) // after it was given up
				_ = a.Close(testContext(t))
				fuse.blow(false)
				settle(time.Minute)
				got := xs(r)
				slices.Sort(got) // of different instances
				if !slices.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
					t.Error(lost)
				}
			})
		})
	}
}

// A reader that was given up and has caught up since leaves nothing behind at the broker.
func TestNoDeathIsKeptForAReaderThatIsBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, watcher := d.join("a"), d.join("watcher")
		b, fuse := d.joinBy("b")
		w, r := writerOf(t, topicOf[pose](t, a, "p"), keepAll), readerOf(t, topicOf[pose](t, b, "p"), keepAll)
		awaitReaders(t, w, 1)
		fuse.blow(true)
		settle(time.Minute)
		fuse.blow(false)
		settle(time.Minute)
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		expectXs(t, "the reader", r, 1)
		if err := a.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
		defer cancel()
		for p := range watcher.Peers(ctx) {
			if p.ID == "a" {
				t.Errorf("%+v is retained", p)
			}
		}
	})
}
