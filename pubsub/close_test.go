package pubsub

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// late is a way to the broker of which one connection, that of the samples, can be
// held up.
type late struct {
	to func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	conns []net.Conn
	held  chan struct{} // closed when bytes come again; nil: they come
	lost  bool          // the connection is, with what was held up
}

func (l *late) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.to(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns = append(l.conns, conn); err != nil || len(l.conns) != 2 {
		return conn, err
	}
	return &lateConn{conn, l}, nil
}

func (l *late) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

func (l *late) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held)
	l.held = nil
}

// lose loses the connection with what is held up.
func (l *late) lose() {
	l.mu.Lock()
	l.lost = true
	l.conns[1].Close()
	l.mu.Unlock()
	l.release()
}

type lateConn struct {
	net.Conn
	l *late
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.mu.Lock()
	held := c.l.held
	c.l.mu.Unlock()
	if held == nil {
		return n, err
	}
	<-held
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.l.lost {
		return 0, net.ErrClosed
	}
	return n, err
}

// closing is a writer whose samples have not reached their reader.
type closing struct {
	w   *Writer[pose]
	r   *Reader[pose]
	way *late
}

func startClosing(t *testing.T, d *world, q QoS) *closing {
	c := &closing{way: &late{to: d.b.Dial}}
	c.r = readerOf(t, topicOf[pose](t, join(t, "", "b", WithDialer(c.way.dial)), "p"), q)
	c.w = writerOf(t, topicOf[pose](t, d.join("a"), "p"), q)
	awaitReaders(t, c.w, 1)
	write(t, c.w, poseOf("r", 0)) // having heard it just now, the reader does not ask at once for what is held up
	synctest.Wait()
	c.r.Take(1)
	c.way.hold()
	for i := range 5 {
		write(t, c.w, poseOf("r", float64(i+1)))
	}
	return c
}

// abandon closes the writer without waiting.
func (c *closing) abandon(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.w.Close(ctx); (c.w.qos.Reliability == Reliable) != (errors.Is(err, ErrUndelivered) && errors.Is(err, context.Canceled)) {
		t.Errorf("Close: %v", err)
	}
}

var everything = QoS{Reliability: Reliable, History: KeepAll}

func TestCloseWaitsForAcknowledgements(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startClosing(t, d, everything)
		defer c.way.release()
		if err := c.w.Close(testContext(t)); err != nil {
			t.Error(err)
		}
		if got := values(c.r); !slices.Equal(got, []float64{1, 2, 3, 4, 5}) {
			t.Errorf("got %v", got)
		}
	})
}

// The withdrawal says which sample is the last, and readers take those before it,
// whichever comes first.
func TestAWithdrawalDoesNotOvertakeSamples(t *testing.T) {
	for name, q := range map[string]QoS{"reliable": everything, "best effort": {History: KeepAll}} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				c := startClosing(t, d, q)
				c.abandon(t)
				pass(time.Second)
				c.way.release()
				pass(time.Second)
				var got []float64
				state := Alive
				for _, s := range c.r.Take(100) {
					if state = s.Info.State; s.Info.Valid {
						got = append(got, s.Data.X)
					}
				}
				if !slices.Equal(got, []float64{1, 2, 3, 4, 5}) || state != NoWriters {
					t.Errorf("got %v, then %v", got, state)
				}
				if lost := told[SampleLost](c.r.ep.events); len(lost) > 0 {
					t.Error(lost)
				}
			})
		})
	}
}

func TestWhatAClosedWriterCannotSendAgainIsToldAsLost(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startClosing(t, d, everything)
		c.abandon(t)
		synctest.Wait() // the samples are on the way
		c.way.lose()
		pass(time.Minute)
		if lost := told[SampleLost](c.r.ep.events); !slices.Equal(lost, []SampleLost{{c.w.GUID(), 5}}) {
			t.Errorf("told %v", lost)
		}
		if n, _ := c.r.recv.Matches(); n != 0 {
			t.Errorf("%d writers match", n)
		}
	})
}

// Who was away when a writer was closed hears how much of it is lost.
func TestAReaderThatWasAwayIsToldWhatAClosedWriterTookAlong(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		b, cable := d.joinBy("b")
		r := readerOf(t, topicOf[pose](t, b, "p"), everything)
		c := &closing{w: writerOf(t, topicOf[pose](t, d.join("a"), "p"), everything)}
		awaitReaders(t, c.w, 1)
		write(t, c.w, poseOf("r", 1))
		pass(time.Second)
		cable.Cut()
		write(t, c.w, poseOf("r", 2))
		write(t, c.w, poseOf("r", 3))
		c.abandon(t)
		pass(time.Second)
		cable.Restore()
		pass(time.Minute)
		if got, lost := values(r), told[SampleLost](r.ep.events); !slices.Equal(got, []float64{1}) || !slices.Equal(lost, []SampleLost{{c.w.GUID(), 2}}) {
			t.Errorf("got %v, told %v", got, lost)
		}
		if n, _ := r.recv.Matches(); n != 0 {
			t.Errorf("%d writers match", n)
		}
	})
}

// A reader that takes nothing holds up a Close without a deadline for a second. What
// it has no room for it gets as it makes some, though the writer is gone.
func TestAFullReaderDoesNotHoldUpCloseForEver(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 2})
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), everything)
		awaitReaders(t, w, 1)
		for i := range 5 {
			write(t, w, poseOf("r", float64(i+1)))
		}
		pass(time.Second)
		began := time.Now()
		if err := w.Close(context.Background()); !errors.Is(err, ErrUndelivered) || time.Since(began) != time.Second {
			t.Errorf("Close: after %v, %v", time.Since(began), err)
		}
		pass(time.Minute)
		if got := values(r); !slices.Equal(got, []float64{1, 2, 3, 4, 5}) {
			t.Errorf("got %v", got)
		}
		pass(time.Minute)
		if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
			t.Error(lost)
		}
		if n, _ := r.recv.Matches(); n != 0 {
			t.Errorf("%d writers match", n)
		}
	})
}
