package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// fullWriter is one whose history, and that of its reader, has no room.
func fullWriter(t *testing.T, d *world) (*Topic[pose], *Writer[pose]) {
	topic := topicOf[pose](t, d.join("p"), "t")
	few := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 2, MaxBlocking: time.Minute}
	w := writerOf(t, topic, few)
	readerOf(t, topic, few)
	awaitReaders(t, w, 1)
	for range 4 {
		write(t, w, poseOf("r", 1))
	}
	return topic, w
}

// A writer that is held up says for what, and why it did not wait longer.
func TestAWriteThatIsGivenUpSaysWhatItWaitedFor(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		_, w := fullWriter(t, d)
		const full = "history of 2 samples is full and a reader does not acknowledge"
		mine := errors.New("I have had enough")
		for name, c := range map[string]struct {
			ctx  func() (context.Context, context.CancelFunc)
			want []error
			not  error
		}{
			"MaxBlocking": {func() (context.Context, context.CancelFunc) { return t.Context(), func() {} }, []error{ErrTimeout}, context.DeadlineExceeded},
			"deadline": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), time.Second)
			}, []error{ErrTimeout, context.DeadlineExceeded}, context.Canceled},
			"deadline with a cause": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(t.Context(), time.Second, mine)
			}, []error{ErrTimeout, context.DeadlineExceeded, mine}, context.Canceled},
			"cancellation": {func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(mine) })
				return ctx, func() { cancel(nil) }
			}, []error{context.Canceled, mine}, ErrTimeout},
		} {
			ctx, cancel := c.ctx()
			err := w.Write(ctx, poseOf("r", 2))
			cancel()
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v is not %v", name, err, want)
				}
			}
			if errors.Is(err, c.not) || err == nil || !strings.Contains(err.Error(), full) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := w.TryWrite(poseOf("r", 2)); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), full) {
			t.Errorf("TryWrite: %v", err)
		}
	})
}

// An error says what has ended, and of which topic.
func TestWhatHasEndedIsNamed(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		topic, w := fullWriter(t, d)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, ofWriter := NewWriter(over, topic)
		_, ofReader := NewReader(over, topic)
		blocked := make(chan error, 1)
		go func() { blocked <- w.Write(t.Context(), poseOf("r", 2)) }()
		pass(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(soon); !errors.Is(err, ErrUndelivered) {
			t.Errorf("Close: %v", err)
		}
		for name, c := range map[string]struct{ err, want error }{
			"NewWriter":           {ofWriter, context.Canceled},
			"NewReader":           {ofReader, context.Canceled},
			"Write":               {w.Write(over, poseOf("r", 2)), context.Canceled},
			"Write, closed":       {w.Write(t.Context(), poseOf("r", 2)), ErrClosed},
			"Write while closing": {<-blocked, ErrClosed},
		} {
			if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), `topic "t"`) {
				t.Errorf("%s: %v", name, c.err)
			}
		}
	})
}

// A writer or reader that has ended matches none.
func TestWhoHasEndedMatchesNobody(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		topic := topicOf[pose](t, d.join("p"), "t")
		w, r := writerOf(t, topic, keepAll), readerOf(t, topic, keepAll)
		w2, r2 := writerOf(t, topic, keepAll), readerOf(t, topic, keepAll)
		awaitReaders(t, w, 2)
		awaitReaders(t, w2, 2)
		pass(time.Second)
		if err := w.Close(testContext(t)); err != nil {
			t.Error(err)
		}
		r.Close()
		pass(time.Second)
		for _, n := range []int{0, 1} {
			for name, err := range map[string]error{"writer": w.WaitMatched(testContext(t), n), "reader": r.WaitMatched(testContext(t), n)} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("WaitMatched of the %s for %d: %v", name, n, err)
				}
			}
		}
		matches(t, "a closed writer", w, 0)
		matches(t, "a closed reader", r, 0)
		matches(t, "a writer", w2, 1)
		matches(t, "a reader", r2, 1)
	})
}

// A context that has ended does not take back what is acknowledged.
func TestCloseWithAnEndedContext(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		topic := topicOf[pose](t, d.join("p"), "t")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 { // of two channels that are ready select takes any
			w, r := writerOf(t, topic, keepAll), readerOf(t, topic, keepAll)
			awaitReaders(t, w, 1)
			write(t, w, poseOf("r", 1))
			pass(time.Second)
			if err := w.Close(over); err != nil {
				t.Fatalf("everything was acknowledged: %v", err)
			}
			expectXs(t, "then", r, 1)
			r.Close()
		}
		w, r := writerOf(t, topic, QoS{}), readerOf(t, topic, QoS{})
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 2))
		if err := w.Close(over); err != nil && (!errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `topic "t"`)) {
			t.Errorf("at best effort: %v", err)
		}
		pass(time.Second)
		expectXs(t, "at best effort", r, 2)
	})
}
