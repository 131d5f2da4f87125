// Package centre is the rescue centre: it runs the broker unless there is one,
// founds the lock topic of the frequencies, receives the frames, and decides
// between importance and fairness. It never locks a frequency itself.
package centre

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

// asMember keeps the centre below every robot where it is not the root: it must
// not be one, as it cannot be killed.
const asMember = 1_000_000

// Centre is a running rescue centre.
type Centre struct {
	cfg    scenario.Config
	broker *broker.Broker // nil: another one is used
	p      *pubsub.Participant
	topic  *qosmutex.Topic
	frames *pubsub.Reader[camera.Frame]
	cancel context.CancelFunc
	wg     sync.WaitGroup

	received, bytes, bad, refused atomic.Uint64
}

// Frames counts what the centre received.
type Frames struct {
	Received, Bytes uint64
	Bad             uint64 // could not be decoded
	// Refused frames had a lower fence than one before on their frequency: they were
	// sent after their robot's hold was over.
	Refused uint64
}

// Start brings up a centre and founds the lock topic. Under chaos the broker and
// the root are others, which must be there. ctx bounds the starting.
func Start(ctx context.Context, cfg scenario.Config) (*Centre, error) {
	c := &Centre{cfg: cfg}
	if err := c.start(ctx); err != nil {
		// Not by ctx, which may be what ended the start.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Close(closing))
	}
	return c, nil
}

func (c *Centre) start(ctx context.Context) error {
	var options []pubsub.Option
	if c.cfg.Broker == "" {
		b, err := broker.Start(ctx, broker.Config{TCP: c.cfg.Listen})
		if err != nil {
			return err
		}
		c.broker = b
		options = append(options, pubsub.WithDialer(b.Dial))
	}
	var err error
	if c.p, err = scenario.Join(ctx, c.cfg.Chaos, c.URL(), scenario.Centre, options...); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if c.frames, err = camera.NewReader(ctx, c.p); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.wg.Go(func() { c.receive(running) })
	return nil
}

// open founds the lock topic, or becomes a member of the one that a base founds.
func (c *Centre) open(ctx context.Context) (err error) {
	options := []qosmutex.Option{
		qosmutex.WithResources(c.cfg.FrequencyNames()...),
		qosmutex.WithModels(c.cfg.Models),
		qosmutex.WithTiming(scenario.Timing()),
	}
	if c.cfg.Chaos {
		options = append(options, qosmutex.WithNodePriority(asMember))
	} else {
		options = append(options, qosmutex.Found(), qosmutex.WithNodePriority(scenario.RootPriority))
	}
	for {
		c.topic, err = qosmutex.Open(ctx, c.p, scenario.LockTopic, options...)
		if !c.cfg.Chaos || !errors.Is(err, qosmutex.ErrNoRoot) {
			break // else the base still listens for another root
		}
	}
	if err != nil {
		return err
	}
	if role := c.topic.Status().Role; role != protocol.Root && !c.cfg.Chaos {
		return fmt.Errorf("the centre is a %v of lock topic %q at %s, not its root: end what else runs there, or use another broker", role, scenario.LockTopic, c.URL())
	}
	return nil
}

// URL returns where the broker is.
func (c *Centre) URL() string {
	if c.broker != nil {
		return c.broker.URL()
	}
	return c.cfg.Broker
}

// receive takes in frames and looks at each picture. It is the resource that the
// lock protects, so it refuses what comes with an old fence.
func (c *Centre) receive(ctx context.Context) {
	names, highest := c.cfg.FrequencyNames(), map[string]uint64{} // fence, by frequency
	for sample, err := range c.frames.Samples(ctx) {
		if err != nil || !sample.Info.Valid {
			continue
		}
		if f := sample.Data; f.Fence < highest[f.Frequency] {
			c.refused.Add(1)
			continue
		} else if slices.Contains(names, f.Frequency) {
			highest[f.Frequency] = f.Fence
		}
		c.received.Add(1)
		c.bytes.Add(uint64(len(sample.Data.Picture)))
		if sample.Data.Check() != nil {
			c.bad.Add(1)
		}
	}
}

// Frames returns what was received so far.
func (c *Centre) Frames() Frames {
	return Frames{c.received.Load(), c.bytes.Load(), c.bad.Load(), c.refused.Load()}
}

// Fair switches the topic from Level to Fair and returns when that is in force.
func (c *Centre) Fair(ctx context.Context) error { return c.topic.SetModels(ctx, c.cfg.FairModels()) }

// Messages returns how many messages that the papers count the centre has sent.
func (c *Centre) Messages() uint64 { return scenario.Messages(c.topic.Status().Counters) }

// Err returns why the lock topic has ended, nil while it runs.
func (c *Centre) Err() error { return c.topic.Err() }

// Close ends the centre and its broker, and waits for both.
func (c *Centre) Close(ctx context.Context) error {
	var errs []error
	if c.cancel != nil {
		c.cancel()
		c.wg.Wait()
	}
	if c.topic != nil {
		errs = append(errs, c.topic.Close(ctx))
	}
	if c.p != nil {
		errs = append(errs, c.p.Close(ctx))
	}
	if c.broker != nil {
		errs = append(errs, c.broker.Close(ctx))
	}
	return errors.Join(errs...)
}
