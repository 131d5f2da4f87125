package pubsub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/cache"
)

func TestAFullHistoryForLateJoinersBlamesNoReader(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), QoS{Reliability: Reliable, Durability: TransientLocal, MaxSamples: 1})
		write(t, w, poseOf("r", 1))
		if err := w.TryWrite(poseOf("s", 2)); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "late joiners") {
			t.Error(err)
		}
	})
}

// That an instance has no writers is told whether or not there is room for samples,
// and takes no sample's room.
func TestChangesOfStateNeedNoRoom(t *testing.T) {
	for name, q := range map[string]QoS{
		"keep all":  {Reliability: Reliable, History: KeepAll, MaxSamples: 2},
		"keep last": {Reliability: Reliable, Depth: 2},
		"limited":   {Reliability: Reliable, Depth: 2, MaxSamples: 2},
	} {
		for how, leave := range map[string]func(*Writer[pose]) error{
			"close":      func(w *Writer[pose]) error { return w.Close(context.Background()) },
			"unregister": func(w *Writer[pose]) error { return w.Unregister(context.Background(), poseOf("r", 0)) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				virtually(t, func(t *testing.T, d *world) {
					r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
					w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), everything)
					awaitReaders(t, w, 1)
					write(t, w, poseOf("r", 1))
					write(t, w, poseOf("r", 2))
					if err := leave(w); err != nil {
						t.Error(err)
					}
					pass(time.Second)
					var got []float64
					state := Alive
					for _, s := range r.Take(100) {
						if state = s.Info.State; s.Info.Valid {
							got = append(got, s.Data.X)
						}
					}
					if !slices.Equal(got, []float64{1, 2}) || state != NoWriters {
						t.Errorf("got %v, then %v", got, state)
					}
				})
			})
		}
	}
}

// A keep-all reader that knows MaxInstances does not acknowledge what it cannot take,
// says so once, and takes it when another instance is over.
func TestAReaderDoesNotAcknowledgeAnInstanceTooMany(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{Reliability: Reliable, History: KeepAll, MaxInstances: 2})
		a := topicOf[pose](t, d.join("a"), "p")
		w, late := writerOf(t, a, everything), writerOf(t, a, everything)
		awaitReaders(t, w, 1)
		awaitReaders(t, late, 1)
		write(t, w, poseOf("r", 1))
		write(t, w, poseOf("s", 2))
		pass(time.Second)
		write(t, late, poseOf("t", 3))
		write(t, late, poseOf("t", 4))
		pass(10 * time.Second)
		if got := values(r); !slices.Equal(got, []float64{1, 2}) {
			t.Errorf("got %v", got)
		}
		if late.send.Lagging(1) == nil {
			t.Error("a sample for which there is no room is acknowledged")
		}
		if rejected := told[SampleRejected](r.ep.events); len(rejected) != 1 || !errors.Is(rejected[0].Err, cache.ErrInstances) {
			t.Errorf("told %v", rejected)
		}
		write(t, w, poseOf("s", 5)) // the other writer goes on
		if err := w.Dispose(testContext(t), poseOf("r", 0)); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		if got := values(r); !slices.Equal(got, []float64{5, 3, 4}) {
			t.Errorf("got %v", got)
		}
	})
}
