package pubsub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// startLeaving makes a participant with two writers whose readers are full.
func startLeaving(t *testing.T, d *world) (a *Participant, p, q *Reader[pose]) {
	a, b := d.join("a"), d.join("b")
	var readers []*Reader[pose]
	for _, name := range []string{"p", "q"} {
		r := readerOf(t, topicOf[pose](t, b, name), QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 2})
		w := writerOf(t, topicOf[pose](t, a, name), everything)
		awaitReaders(t, w, 1)
		for i := range 5 {
			write(t, w, poseOf("r", float64(i+1)))
		}
		readers = append(readers, r)
	}
	pass(time.Second)
	return a, readers[0], readers[1]
}

func TestAParticipantThatIsClosedWaitsForReaders(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, p, q := startLeaving(t, d)
		done := make(chan error, 1)
		go func() { done <- closeSoon(a) }()
		pass(4 * time.Second)
		if len(done) > 0 {
			t.Fatalf("after 4 s of 10: %v", <-done)
		}
		for _, r := range []*Reader[pose]{p, q} {
			var got []float64
			for range 5 {
				got = append(got, values(r)...)
				pass(100 * time.Millisecond)
			}
			if !slices.Equal(got, []float64{1, 2, 3, 4, 5}) {
				t.Errorf("got %v", got)
			}
		}
		if err := receive(t, done, "the end of Close"); err != nil {
			t.Error(err)
		}
	})
}

func TestAParticipantThatIsClosedSaysWhatItDidNotDeliver(t *testing.T) {
	for name, limit := range map[string]time.Duration{"with a deadline": 4 * time.Second, "without": 0} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				a, p, _ := startLeaving(t, d)
				ctx, most := context.Background(), time.Second // all together
				if limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
					most = limit
				}
				began := time.Now()
				err := a.Close(ctx)
				if took := time.Since(began); took < most-time.Second || took > most || !errors.Is(err, ErrUndelivered) {
					t.Errorf("after %v: %v", took, err)
				}
				for _, topic := range []string{`"p"`, `"q"`, "3 samples"} {
					if !strings.Contains(err.Error(), topic) {
						t.Errorf("nothing about %s: %v", topic, err)
					}
				}
				if ctx.Err() != nil || errors.Is(err, ErrOffline) {
					t.Errorf("no time is left to tell of the end: %v", err)
				}
				pass(time.Minute)
				if got := values(p); !slices.Equal(got, []float64{1, 2, 3, 4, 5}) {
					t.Errorf("later it got %v", got)
				}
			})
		})
	}
}

// The broker stands still: neither the samples nor the end of the participant get there.
func TestACloseThatRunsOutOfTimeSaysWhatItDidNotDeliver(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		p, way := d.joinBy("a")
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), everything)
		w := writerOf(t, topicOf[pose](t, p, "p"), everything)
		awaitReaders(t, w, 1)
		way.Mute(true)
		write(t, w, poseOf("r", 1))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, ErrUndelivered) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
	})
}
