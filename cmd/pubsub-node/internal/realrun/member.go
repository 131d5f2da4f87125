package realrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/papers"
)

// member is one participant, in its process.
type member struct {
	*order
	p     *pubsub.Participant
	way   *way
	topic qosmutex.Locker
}

// Participate is what the process of one participant does: what it reads from in, until that
// ends. It answers on out.
func Participate(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	m := &member{order: new(order)}
	if err := from.Decode(m.order); err != nil {
		return fmt.Errorf("reading what to do: %w", err)
	}
	steps := make(chan step)
	go func() { // ends with in
		defer close(steps)
		for {
			var s step
			if err := from.Decode(&s); err != nil {
				cancel(errOver)
				return
			}
			select {
			case steps <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer m.leave()
	a, err := new(answer), m.join(ctx)
	for {
		switch {
		case errors.Is(context.Cause(ctx), errOver):
			return nil
		case err != nil:
			a = &answer{Failed: err.Error()}
		}
		if err := to.Encode(a); err != nil || a.Failed != "" {
			return err
		}
		s, more := <-steps
		if !more {
			return nil
		}
		a, err = m.do(ctx, s)
	}
}

// errOver is why a participant ends: its standard input has ended.
var errOver = errors.New("the run is over")

func (m *member) do(ctx context.Context, s step) (*answer, error) {
	switch s.Do {
	case open:
		return &answer{}, m.open(ctx)
	case start:
		return m.run(ctx, s.At)
	}
	return nil, fmt.Errorf("the unknown step %q", s.Do)
}

func (m *member) join(ctx context.Context) error {
	const prefix, domain = "padme", "default"
	m.way = &way{inboxes: []byte(prefix + "/v1/" + domain + "/node/"), flat: m.Flat, delays: map[string][]time.Duration{}, known: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	for id, some := range m.Delays {
		level, err := pubsub.EncodeLevel(id)
		if err != nil {
			return err
		}
		m.way.delays[level] = some
	}
	var err error
	m.p, err = pubsub.Join(ctx, m.URL, m.ID, pubsub.WithPrefix(prefix), pubsub.WithDomain(domain), pubsub.WithDialer(func(ctx context.Context) (net.Conn, error) {
		c, err := pubsub.DialBroker(ctx, m.URL, nil)
		if err != nil || len(m.Delays) == 0 {
			return c, err
		}
		return newLink(c, m.way), nil
	}))
	return err
}

func (m *member) open(ctx context.Context) (err error) {
	if m.Algorithm != "" {
		algorithm, err := papers.AlgorithmNamed(m.Algorithm)
		if err != nil {
			return err
		}
		t, err := papers.Open(m.p, m.Lock, papers.Config{
			Algorithm: algorithm, Members: m.Members, Fanout: m.Fanout, Resources: m.Resources,
			Priority: m.Priority, Hop: m.Timing.Hop,
		})
		if err != nil {
			return err
		}
		m.topic = t
		return nil
	}
	opts := []qosmutex.Option{qosmutex.WithTiming(m.Timing), qosmutex.WithNodePriority(m.Priority), qosmutex.WithFanout(m.Fanout)}
	switch {
	case m.First:
		models, err := qosmutex.ParseModels(m.Models)
		if err != nil {
			return err
		}
		opts = append(opts, qosmutex.Create(), qosmutex.WithResources(m.Resources...), qosmutex.WithModels(models))
	case m.Parent != "":
		opts = append(opts, qosmutex.WithParent(m.Parent))
	}
	t, err := qosmutex.Open(ctx, m.p, m.Lock, opts...)
	if err != nil {
		return err
	}
	m.topic = t
	return nil
}

// leave ends the participant. The others end, too, so it hands nothing over.
func (m *member) leave() {
	if m.p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.p.Close(ctx)
}
