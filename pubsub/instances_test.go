package pubsub

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"padme/pubsub/internal/connection"
	"padme/tests/proxy"
)

func TestDifferentKeysAreDifferentInstances(t *testing.T) {
	type pair struct {
		A, B string
		N    int
	}
	text := func(p pair, keys ...[]int) string { return keyText(reflect.ValueOf(p), keys) }
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune{',', '\\', '=', 'a'}), 0, 4, -1))
		p := pair{draw.Draw(t, "a1"), draw.Draw(t, "b1"), 1}
		q := pair{draw.Draw(t, "a2"), draw.Draw(t, "b2"), 1}
		for _, keys := range [][][]int{{{0}}, {{0}, {1}}, {{0}, {1}, {2}}} {
			same := p.A == q.A && (len(keys) == 1 || p.B == q.B)
			a, b := text(p, keys...), text(q, keys...)
			if same != (a == b) {
				t.Fatalf("%+v and %+v have keys %q and %q", p, q, a, b)
			}
			if _, err := EncodeLevel(a); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestInstancesAreDisposedAndLoseTheirWriters(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	q := QoS{Reliability: Reliable, History: KeepAll}
	r := readerOf(t, topicOf[pose](t, b, "p"), q)
	w := writerOf(t, topicOf[pose](t, a, "p"), q)
	awaitReaders(t, w, 1)
	ctx := testContext(t)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	type step struct {
		valid              bool
		state              InstanceState
		disposed, noWriter int
	}
	expect := func(want step) {
		t.Helper()
		in := collect(t, r, 1)[0].Info
		if got := (step{in.Valid, in.State, in.DisposedGeneration, in.NoWritersGeneration}); got != want || in.Key != "r1" {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	v := pose{Robot: "r1", X: 1}
	do(w.Write(ctx, v))
	expect(step{true, Alive, 0, 0})
	do(w.Dispose(ctx, v))
	expect(step{false, Disposed, 0, 0})
	do(w.Write(ctx, v))
	expect(step{true, Alive, 1, 0})
	do(w.Unregister(ctx, v))
	expect(step{false, NoWriters, 1, 0})
	do(w.Write(ctx, v))
	expect(step{true, Alive, 1, 1})
	do(w.WaitAcked(ctx))
	do(w.Close(ctx))
	expect(step{false, NoWriters, 1, 1})
	if err := w.Write(ctx, v); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	w2 := writerOf(t, topicOf[pose](t, a, "p"), q)
	awaitReaders(t, w2, 1)
	do(w2.Write(ctx, v))
	expect(step{true, Alive, 1, 2})
	closeNow(t, a)
	expect(step{false, NoWriters, 1, 2})
}

func TestASlowReaderSeesTheLastOfEachInstance(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[pose](t, a, "p"), QoS{Reliability: Reliable, History: KeepAll})
	r := readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, Depth: 2})
	awaitReaders(t, w, 1)
	for i := range 300 {
		write(t, w, pose{Robot: fmt.Sprint(i % 3), X: float64(i)})
	}
	if err := w.WaitAcked(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Read(100)); n != 6 {
		t.Errorf("Read returned %d", n)
	}
	var got []float64
	for _, s := range r.Take(100) {
		got = append(got, s.Data.X)
	}
	if !reflect.DeepEqual(got, []float64{294, 295, 296, 297, 298, 299}) {
		t.Errorf("took %v", got)
	}
	if len(r.Take(1)) > 0 {
		t.Error("taken twice")
	}
}

func TestAFullReaderBlocksItsWriter(t *testing.T) {
	t.Parallel()
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 10}
	w := writerOf(t, topicOf[int](t, a, "n"), q)
	r := readerOf(t, topicOf[int](t, b, "n"), q)
	awaitReaders(t, w, 1)
	n := 0
	for ; ; n++ {
		err := w.Write(testContext(t), n)
		if errors.Is(err, ErrTimeout) {
			break
		}
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if n < 20 {
		t.Errorf("blocked after %d samples, there was room for 20", n)
	}
	if err := w.TryWrite(n); !errors.Is(err, ErrTimeout) {
		t.Errorf("TryWrite: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, n); !errors.Is(err, context.Canceled) {
		t.Errorf("Write with a canceled context: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for ; n < 500 && err == nil; n++ {
			err = w.Write(testContext(t), n)
		}
		done <- err
	}()
	for i, s := range collect(t, r, 500) {
		if s.Data != i {
			t.Fatalf("sample %d is %d", i, s.Data)
		}
	}
	if err := receive(t, done, "the writer"); err != nil {
		t.Fatal(err)
	}
}

func TestReliableSamplesSurviveLostConnections(t *testing.T) {
	url := startBroker(t)
	wallA, wallB := proxy.Start(t, url), proxy.Start(t, url)
	a, b := join(t, wallA.URL(), "a"), join(t, wallB.URL(), "b")
	q := QoS{Reliability: Reliable, History: KeepAll, MaxBlocking: connection.MaxBackoff * 6}
	w := writerOf(t, topicOf[int](t, a, "n"), q)
	r := readerOf(t, topicOf[int](t, b, "n"), q)
	awaitReaders(t, w, 1)
	const n = 3000
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if i%1000 == 500 {
				wallB.Break()
			}
			if i%1000 == 800 {
				wallA.Break()
			}
			if err := w.Write(testContext(t), i); err != nil {
				done <- err
				return
			}
		}
		done <- w.WaitAcked(testContext(t))
	}()
	next := 0
	for s, err := range r.Samples(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if !s.Info.Valid {
			continue
		}
		if s.Data != next {
			t.Fatalf("sample %d is %d", next, s.Data)
		}
		if next++; next == n {
			break
		}
	}
	if next < n {
		t.Fatalf("%d of %d arrived", next, n)
	}
	if err := receive(t, done, "the writer"); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingComesBackAfterTheBrokerRestarts(t *testing.T) {
	broker := startBrokerAt(t, "127.0.0.1:0")
	addr := broker.TCPAddr().String()
	a, b := join(t, broker.URL(), "a"), join(t, broker.URL(), "b")
	q := QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll}
	w := writerOf(t, topicOf[int](t, a, "n"), q)
	r := readerOf(t, topicOf[int](t, b, "n"), q)
	awaitReaders(t, w, 1)
	write(t, w, 0)
	collect(t, r, 1)
	stopBroker(t, broker)
	write(t, w, 1) // kept for the reader
	startBrokerAt(t, addr)
	for s, err := range r.Samples(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Info.Valid {
			if s.Data != 1 {
				t.Errorf("got %d", s.Data)
			}
			if err := w.WaitAcked(testContext(t)); err != nil { // before the broker ends
				t.Error(err)
			}
			return
		}
	}
	t.Error("nothing came")
}

func TestEndpointsEndWithTheirParticipant(t *testing.T) {
	a := join(t, startBroker(t), "a")
	topic := topicOf[int](t, a, "n")
	w, r := writerOf(t, topic, QoS{}), readerOf(t, topic, QoS{})
	errs := make(chan error, 4)
	go func() {
		for _, err := range r.Samples(testContext(t)) {
			errs <- err
		}
	}()
	go func() {
		for _, err := range r.Events(testContext(t)) {
			if err != nil {
				errs <- err
			}
		}
	}()
	go func() { errs <- w.WaitMatched(testContext(t), 99) }()
	go func() { errs <- r.WaitMatched(testContext(t), 99) }()
	awaitReaders(t, w, 1)
	closeNow(t, a)
	for range 4 {
		if err := receive(t, errs, "the end"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := NewWriter(testContext(t), topic); !errors.Is(err, ErrClosed) {
		t.Errorf("NewWriter: %v", err)
	}
}
