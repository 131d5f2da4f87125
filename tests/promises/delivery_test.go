package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/poll"
)

// Finding 1: a Close that returns nil has lost nothing.
func TestWhatAWriterWroteArrivesAlthoughItIsClosed(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		const participants, each, samples = 4, 5, 500
		r := reader(t, join(t, url, "reader"), "t", keepAll)
		var all sync.WaitGroup
		for i := range participants {
			p := join(t, url, fmt.Sprintf("p%d", i))
			for j := range each {
				w := writer(t, p, "t", keepAll)
				matched(t, w, 1)
				all.Go(func() {
					for n := range samples {
						if err := w.Write(within(t, patience), value{fmt.Sprintf("%d/%d", i, j), n}); err != nil {
							t.Error(err)
							return
						}
					}
					if err := w.Close(within(t, patience)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		go func() { // long enough for what is on its way
			all.Wait()
			select {
			case <-time.After(5 * time.Second):
				stop()
			case <-ctx.Done():
			}
		}()
		next, total := map[string]int{}, 0
		for s, err := range r.Samples(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if !s.Info.Valid {
				continue
			}
			if s.Data.N != next[s.Data.Key] {
				t.Errorf("writer %s: sample %d came where %d was due", s.Data.Key, s.Data.N, next[s.Data.Key])
			}
			next[s.Data.Key] = s.Data.N + 1
			if total++; total == participants*each*samples {
				break
			}
		}
		if total < participants*each*samples {
			t.Errorf("%d of %d samples arrived", total, participants*each*samples)
		}
		all.Wait()
	})
}

// Finding 3: a writer for late joiners goes on when instances are over, whoever reads.
func TestInstancesThatAreOverDoNotFillAWriter(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		q := pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.TransientLocal, MaxSamples: 64}
		w, r := pair(t, url, q, keepAll)
		go func() {
			for range r.Samples(t.Context()) { // until the reader ends
			}
		}()
		for i := range 5 * q.MaxSamples {
			v := value{fmt.Sprint(i), i}
			for _, do := range []func(context.Context, value) error{w.Write, w.Dispose, w.Unregister} {
				if err := do(within(t, patience), v); err != nil {
					t.Fatalf("instance %d: %v", i, err)
				}
			}
		}
	})
}

func TestAFullWriterBlamesNobodyWhoIsNotThere(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		w := writer(t, join(t, url, "writer"), "t", pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.TransientLocal, MaxSamples: 1})
		write(t, w, "a", 1)
		if err := w.TryWrite(value{"b", 2}); !errors.Is(err, pubsub.ErrTimeout) || !strings.Contains(err.Error(), "late joiners") {
			t.Error(err)
		}
	})
}

// Finding 5: that nobody writes an instance any more is told to a reader that is full.
func TestAFullReaderHearsThatThereAreNoWriters(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		for name, q := range map[string]pubsub.QoS{
			"keep all":  {Reliability: pubsub.Reliable, History: pubsub.KeepAll, MaxSamples: 2},
			"keep last": {Reliability: pubsub.Reliable, Depth: 2},
		} {
			for how, leave := range map[string]func(*pubsub.Writer[value]) error{
				"close":      func(w *pubsub.Writer[value]) error { return w.Close(within(t, patience)) },
				"unregister": func(w *pubsub.Writer[value]) error { return w.Unregister(within(t, patience), value{Key: "a"}) },
			} {
				t.Run(name+", "+how, func(t *testing.T) { leavesAFullReader(t, url, q, leave) })
			}
		}
	})
}

func leavesAFullReader(t *testing.T, url string, q pubsub.QoS, leave func(*pubsub.Writer[value]) error) {
	w, r := pair(t, url, keepAll, q)
	write(t, w, "a", 1)
	write(t, w, "a", 2)
	if err := leave(w); err != nil {
		t.Error(err)
	}
	poll.Until(t, "the instance has no writers", func() bool { return len(r.Read(10, pubsub.NoWriters)) > 0 })
	var got []string
	for _, s := range r.Take(10) {
		got = append(got, fmt.Sprintf("%d %v", s.Data.N, s.Info.State))
	}
	if want := []string{"1 alive", "2 alive", "0 no-writers"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
}

// Finding 5: what a reader has acknowledged it has. What it has no room for it says, and
// takes when there is some.
func TestAReaderAcknowledgesNoInstanceTooMany(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		q := keepAll
		q.MaxInstances = 2
		w, r := pair(t, url, keepAll, q)
		late := writer(t, join(t, url, "late"), "t", keepAll)
		matched(t, late, 1)
		write(t, w, "a", 1)
		write(t, w, "b", 2)
		if err := w.WaitAcked(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		write(t, late, "c", 3)
		if e := event[pubsub.SampleRejected](t, r); !strings.Contains(e.Err.Error(), "MaxInstances") {
			t.Error(e.Err)
		}
		if err := late.WaitAcked(within(t, 300*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitAcked of what is not there: %v", err)
		}
		if err := w.Dispose(within(t, patience), value{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		for last := 0; last != 3; {
			if err := r.Wait(within(t, patience)); err != nil {
				t.Fatalf("there is room, and %d was the last to come: %v", last, err)
			}
			for _, s := range r.Take(10) {
				last = s.Data.N
			}
		}
		if err := late.WaitAcked(within(t, patience)); err != nil {
			t.Error(err)
		}
	})
}
