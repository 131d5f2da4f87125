package pubsub

import (
	"testing"
	"time"
)

func TestATimeBasedFilterThinsOutEachInstance(t *testing.T) {
	for _, reliability := range []Reliability{BestEffort, Reliable} {
		t.Run(name(reliability), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, b := d.join("a"), d.join("b")
				q := QoS{Reliability: reliability, History: KeepAll}
				w := writerOf(t, topicOf[pose](t, a, "p"), q)
				q.TimeBasedFilter = time.Second
				r := readerOf(t, topicOf[pose](t, b, "p"), q)
				awaitReaders(t, w, 1)
				// 25 samples of two instances in 2.4 s.
				for i := range 25 {
					write(t, w, poseOf("slow", float64(i)))
					write(t, w, poseOf("fast", float64(i)))
					settle(100 * time.Millisecond)
				}
				settle(5 * time.Second)
				byKey := map[string][]Sample[pose]{}
				for _, s := range r.Take(100) {
					byKey[s.Data.Robot] = append(byKey[s.Data.Robot], s)
				}
				for _, key := range []string{"slow", "fast"} {
					got := byKey[key]
					for i := range got[1:] {
						if gap := got[i+1].Info.ReceiveTime.Sub(got[i].Info.ReceiveTime); gap < time.Second {
							t.Errorf("%s: %v between two samples", key, gap)
						}
					}
					last := got[len(got)-1].Data.X
					if reliability == Reliable && (last != 24 || len(got) != 4) {
						t.Errorf("%s: %d samples, the last is %v: the last one written must come", key, len(got), last)
					}
					if reliability == BestEffort && (last != 20 || len(got) != 3) {
						t.Errorf("%s: %d samples, the last is %v", key, len(got), last)
					}
				}
				silent(t, "the reader", r.ep.events)
			})
		})
	}
}

func TestChangesOfStatePassATimeBasedFilter(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
		q := keepAll
		q.TimeBasedFilter = time.Minute
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		write(t, w, poseOf("r", 2)) // waits, and is then disposed
		if err := w.Dispose(testContext(t), poseOf("r", 0)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		got := r.Take(9)
		if len(got) != 2 || got[0].Data.X != 1 || got[1].Info.State != Disposed {
			t.Fatalf("%+v", got)
		}
		write(t, w, poseOf("r", 3)) // back to life
		settle(time.Second)
		expectXs(t, "an instance that comes back", r, 3)
		write(t, w, poseOf("r", 4))
		settle(time.Second)
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if got = r.Take(9); len(got) != 1 || got[0].Info.State != NoWriters {
			t.Fatalf("%+v", got)
		}
		settle(time.Minute)
		got = r.Take(9)
		if len(got) != 1 || !got[0].Info.Valid || got[0].Data.X != 4 || got[0].Info.State != NoWriters {
			t.Fatalf("the last sample of a writer that has gone: %+v", got)
		}
		settle(time.Hour)
		expectXs(t, "nothing twice", r)
	})
}

func TestATimeBasedFilterWaitsForRoom(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
		q := keepAll
		q.TimeBasedFilter, q.MaxSamples = time.Second, 1
		r := readerOf(t, topicOf[pose](t, a, "p"), q)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		settle(10 * time.Millisecond)
		write(t, w, poseOf("r", 2)) // turned away: the cache is full
		settle(time.Minute)
		// One sample only: taking it makes room, and the next may come before Take would end.
		if got := r.Take(1); len(got) != 1 || got[0].Data.X != 1 {
			t.Errorf("full: got %v, want the first", got)
		}
		settle(time.Minute)
		expectXs(t, "room again", r, 2)
	})
}
