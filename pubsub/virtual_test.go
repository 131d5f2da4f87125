package pubsub

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/bubble"
	"padme/tests/cable"
)

// world is a broker in virtual time.
type world struct {
	t *testing.T
	b *broker.Broker
}

// virtually runs f in a bubble of virtual time.
func virtually(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopBroker(t, b) })
		f(t, &world{t, b})
	})
}

func (w *world) join(id string) *Participant {
	w.t.Helper()
	return join(w.t, "", id, WithDialer(w.b.Dial))
}

// joinBy joins over a cable that can fail.
func (w *world) joinBy(id string) (*Participant, *cable.Cable) {
	w.t.Helper()
	c := cable.New(w.b.Dial)
	return join(w.t, "", id, WithDialer(c.Dial)), c
}

// pass lets time go by, and what it makes due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns the events of one type that nobody has read, and forgets all.
func told[E Event](ev *events) (out []E) {
	for _, e := range drain(ev) {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// values returns the numbers of the valid samples that wait.
func values(r *Reader[pose]) (out []float64) {
	for _, s := range r.Take(10000) {
		if s.Info.Valid {
			out = append(out, s.Data.X)
		}
	}
	return out
}

// states returns the last state that the samples which wait tell of each
// instance.
func states(r *Reader[pose]) map[string]InstanceState {
	out := map[string]InstanceState{}
	for _, s := range r.Take(10000) {
		out[s.Info.Key] = s.Info.State
	}
	return out
}
