package promises

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/pubsub"
	"padme/tests/brokers"
	"padme/tests/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(2)
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}

// patience is after what a wait counts as a hang.
const patience = 20 * time.Second

type value struct {
	Key string `pubsub:"key"`
	N   int
}

var keepAll = pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll}

// both runs f at both brokers at once.
func both(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	t.Parallel()
	brokers.Both(t, func(t *testing.T, start func() string) {
		t.Parallel()
		f(t, start())
	})
}

// join makes a participant that is closed when the test ends.
func join(t testing.TB, url, id string, opts ...pubsub.Option) *pubsub.Participant {
	t.Helper()
	p, err := pubsub.Join(within(t, patience), url, id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Close(ctx); err != nil && !errors.Is(err, pubsub.ErrUndelivered) {
			t.Errorf("closing %s: %v", id, err)
		}
	})
	return p
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func topic(t testing.TB, p *pubsub.Participant, name string) *pubsub.Topic[value] {
	t.Helper()
	topic, err := pubsub.NewTopic[value](p, name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func writer(t testing.TB, p *pubsub.Participant, name string, q pubsub.QoS) *pubsub.Writer[value] {
	t.Helper()
	w, err := pubsub.NewWriter(within(t, patience), topic(t, p, name), pubsub.WithQoS(q))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func reader(t testing.TB, p *pubsub.Participant, name string, q pubsub.QoS, opts ...pubsub.EndpointOption) *pubsub.Reader[value] {
	t.Helper()
	r, err := pubsub.NewReader(within(t, patience), topic(t, p, name), append(opts, pubsub.WithQoS(q))...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pair is a writer and a reader of two participants that match.
func pair(t testing.TB, url string, offered, requested pubsub.QoS) (*pubsub.Writer[value], *pubsub.Reader[value]) {
	t.Helper()
	r := reader(t, join(t, url, "reader"), "t", requested)
	w := writer(t, join(t, url, "writer"), "t", offered)
	matched(t, w, 1)
	return w, r
}

func matched(t testing.TB, w *pubsub.Writer[value], n int) {
	t.Helper()
	if err := w.WaitMatched(within(t, patience), n); err != nil {
		t.Fatalf("%d readers do not match: %v", n, err)
	}
}

func write(t testing.TB, w *pubsub.Writer[value], key string, n int) {
	t.Helper()
	if err := w.Write(within(t, patience), value{key, n}); err != nil {
		t.Fatalf("writing %s %d: %v", key, n, err)
	}
}

// event waits for the next one of a type.
func event[E pubsub.Event](t testing.TB, r *pubsub.Reader[value]) (e E) {
	t.Helper()
	for got, err := range r.Events(within(t, patience)) {
		if e, ok := got.(E); ok && err == nil {
			return e
		}
	}
	t.Fatalf("the reader is not told of a %T", e)
	return e
}
