package pubsub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/tests/cable"
)

// reading is a writer and a reader of everything, matched.
type reading struct {
	t *testing.T
	w *Writer[pose]
	r *Reader[pose]
}

func startReading(t *testing.T, d *world, q QoS) *reading {
	r := readerOf(t, topicOf[pose](t, d.join("reads"), "p"), q)
	w := writerOf(t, topicOf[pose](t, d.join("writes"), "p"), q)
	awaitReaders(t, w, 1)
	return &reading{t, w, r}
}

func (c *reading) write(key string, x float64) {
	c.t.Helper()
	write(c.t, c.w, poseOf(key, x))
	pass(time.Second)
}

func (c *reading) did(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	pass(time.Second)
}

// is compares samples with what they should be, in the words "key sample view instance".
func (c *reading) is(got []Sample[pose], want ...string) {
	c.t.Helper()
	var have []string
	for _, s := range got {
		i := s.Info
		have = append(have, strings.Join([]string{i.Key, i.SampleState.String(), i.ViewState.String(), i.InstanceState.String()}, " "))
	}
	if !slices.Equal(have, want) {
		c.t.Errorf("got %q, want %q", have, want)
	}
}

func TestReadingMakesSamplesReadAndInstancesNotNew(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startReading(t, d, keepAll)
		c.write("a", 1)
		c.write("a", 2)
		c.write("b", 3)
		c.is(c.r.Read(1), "a not-read new alive")
		c.is(c.r.Read(9), "a read not-new alive", "a not-read not-new alive", "b not-read new alive")
		c.is(c.r.Read(9, NotRead))
		c.write("b", 4)
		c.is(c.r.Read(9, NotRead), "b not-read not-new alive")
		c.write("c", 5)
		c.is(c.r.Take(9, New), "c not-read new alive")
		c.is(c.r.Take(1, Read), "a read not-new alive")
		c.is(c.r.Take(9), "a read not-new alive", "b read not-new alive", "b read not-new alive")
		c.is(c.r.Take(9))
	})
}

func TestTheStateOfAnInstanceIsThatOfTheReading(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startReading(t, d, keepAll)
		c.write("a", 1)
		c.is(c.r.Read(9, Alive), "a not-read new alive")
		c.did(c.w.Dispose(testContext(t), poseOf("a", 0)))
		c.is(c.r.Read(9, Alive, NoWriters))
		c.is(c.r.Read(9, Disposed), "a read not-new disposed", "a not-read not-new disposed")
		c.did(c.w.Unregister(testContext(t), poseOf("a", 0))) // it stays disposed
		c.is(c.r.Read(9, NoWriters))

		c.write("a", 2) // born again
		got := c.r.Take(9)
		c.is(got, "a read new alive", "a read new alive", "a not-read new alive")
		if g := got[2].Info; g.DisposedGeneration != 1 || g.NoWritersGeneration != 0 {
			t.Errorf("generations: %+v", g)
		}
		c.did(c.w.Unregister(testContext(t), poseOf("a", 0)))
		c.is(c.r.Take(9, Disposed, Alive))
		got = c.r.Read(9, NoWriters)
		c.is(got, "a not-read not-new no-writers")
		if got[0].Info.Valid {
			t.Error("that there are no writers came as a value")
		}
		c.write("a", 3)
		got = c.r.Take(9, New, Alive)
		c.is(got, "a read new alive", "a not-read new alive")
		if g := got[1].Info; g.DisposedGeneration != 1 || g.NoWritersGeneration != 1 {
			t.Errorf("generations: %+v", g)
		}
	})
}

// What the instance became is seen in samples that came before.
func TestAWriterThatIsGoneShowsInWhatItWrote(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *reading, *cable.Cable){
		"closed": func(t *testing.T, c *reading, _ *cable.Cable) { c.did(c.w.Close(testContext(t))) },
		"dead":   func(_ *testing.T, _ *reading, way *cable.Cable) { way.Cut(); pass(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				p, way := d.joinBy("writes")
				c := &reading{t, writerOf(t, topicOf[pose](t, p, "p"), keepAll), readerOf(t, topicOf[pose](t, d.join("reads"), "p"), keepAll)}
				awaitReaders(t, c.w, 1)
				c.write("a", 1)
				c.is(c.r.Read(9), "a not-read new alive")
				end(t, c, way)
				got := c.r.Take(9, NoWriters)
				c.is(got, "a read not-new no-writers", "a not-read not-new no-writers")
				if got[0].Info.State != Alive || !got[0].Info.Valid || got[1].Info.State != NoWriters {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

func TestOneInstanceIsRead(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startReading(t, d, keepAll)
		for i := range 3 {
			c.write("a", float64(i))
			c.write("b", float64(10+i))
			c.write("c", float64(20+i))
		}
		b, known := c.r.Lookup(poseOf("b", 77))
		if !known || string(b) != "b" {
			t.Errorf("found %q, %v", b, known)
		}
		if _, known := c.r.Lookup(poseOf("d", 0)); known {
			t.Error("an instance that nobody wrote is known")
		}
		xs := func(got []Sample[pose]) (out []float64) {
			for _, s := range got {
				out = append(out, s.Data.X)
			}
			return out
		}
		if got := xs(c.r.Read(2, b)); !slices.Equal(got, []float64{10, 11}) {
			t.Error(got)
		}
		if got := xs(c.r.Take(9, b, NotRead)); !slices.Equal(got, []float64{12}) {
			t.Error(got)
		}
		if got := xs(c.r.Take(9, b, Instance("c"))); !slices.Equal(got, []float64{10, 20, 11, 21, 22}) {
			t.Error(got)
		}
		if got := xs(c.r.Take(9, Instance("d"), nil)); got != nil {
			t.Error(got)
		}
		if got := xs(c.r.Take(9, InstanceState(200))); got != nil {
			t.Error(got)
		}
		if got := xs(c.r.Take(9)); !slices.Equal(got, []float64{0, 1, 2}) {
			t.Error(got)
		}
	})
}

func TestWaitEndsWhenASampleFits(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startReading(t, d, keepAll)
		waits := func(which ...Selector) chan error {
			done := make(chan error, 1)
			go func() { done <- c.r.Wait(testContext(t), which...) }()
			pass(time.Second)
			return done
		}
		over := func(done chan error) bool { return len(done) == 1 && <-done == nil }
		first, disposed, read := waits(), waits(Disposed), waits(Read)
		c.write("a", 1)
		if !over(first) || over(disposed) || over(read) {
			t.Error("a sample has come")
		}
		c.r.Read(1)
		unread := waits(NotRead)
		if !over(read) || over(disposed) || over(unread) {
			t.Error("it was read")
		}
		c.did(c.w.Dispose(testContext(t), poseOf("a", 0)))
		if !over(disposed) || !over(unread) {
			t.Error("its instance was disposed")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.r.Wait(ctx, NoWriters); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		last := waits(Instance("b"))
		c.r.Close()
		pass(time.Second)
		if err := receive(t, last, "the end of a wait"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := c.r.Wait(context.Background(), Disposed); err != nil {
			t.Errorf("what waits can still be taken: %v", err)
		}
	})
}

// What cannot be decoded does not wait for ever.
func TestWhatCannotBeReadDoesNotStay(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := startReading(t, d, keepAll)
		c.r.topic.codec = JSON
		c.write("a", 1)
		if got := c.r.Read(1); len(got) != 0 || len(told[SampleRejected](c.r.ep.events)) != 1 {
			t.Errorf("read %+v", got)
		}
		if there, _ := c.r.recv.Waits(&anySample); there {
			t.Error("the sample stays")
		}
	})
}

func TestWaitForHistoricalData(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll}
		a := d.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		for i := range 500 {
			write(t, w, poseOf("r", float64(i)))
		}
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
		if err := r.WaitForHistoricalData(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Take(1000)); got != 500 {
			t.Errorf("%d samples are there, 500 were written before", got)
		}
		if err := readerOf(t, topicOf[pose](t, a, "p"), QoS{}).WaitForHistoricalData(testContext(t)); err != nil {
			t.Error(err)
		}

		full := q
		full.MaxSamples = 10
		slow := readerOf(t, topicOf[pose](t, d.join("c"), "p"), full)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := slow.WaitForHistoricalData(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that is full: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- slow.WaitForHistoricalData(testContext(t)) }()
		got := 0
		for got < 500 {
			got += len(slow.Take(5))
			pass(time.Second / 100)
		}
		if err := receive(t, done, "the end of the history"); err != nil {
			t.Error(err)
		}
	})
}

func TestTheHistoryOfTheDeadIsWaitedFor(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a := d.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), transient)
		write(t, w, poseOf("r", 1))
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), transient)
		if err := r.WaitForHistoricalData(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := r.Read(9, NoWriters); len(got) != 1 || got[0].Data.X != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReadingWithoutAReader(t *testing.T) {
	var r *Reader[pose]
	if r.Wait(testContext(t)) == nil || r.WaitForHistoricalData(testContext(t)) == nil {
		t.Error("a reader that was not made waits")
	}
	if _, known := r.Lookup(pose{}); known || r.Read(1, New) != nil || r.Take(1, NotNew) != nil {
		t.Error("a reader that was not made has something")
	}
}
