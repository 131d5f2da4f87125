package center

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/radio"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/inboxes"
)

// asMember keeps the center below every robot where it is not the root.
const asMember = 1_000_000

// session is the center's part in the run from when it joined until it leaves or
// is killed.
type session struct {
	link   *radio.Link
	p      *pubsub.Participant
	voters *inboxes.Client
	topic  *qosmutex.Topic
	frames *pubsub.Reader[camera.Frame]
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// join makes a session. A patient one waits for the broker and the root; the creator of
// the lock topic must be its root.
func (c *Center) join(ctx context.Context, patient, creator bool) (_ *session, err error) {
	s := &session{cancel: func() {}}
	s.link = radio.New(c.dial)
	defer func() {
		if err != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err = errors.Join(err, s.close(closing))
		}
	}()
	if s.p, err = scenario.Join(ctx, patient, c.URL(), scenario.Center, c.cfg.InDomain(), pubsub.WithDialer(s.link.Dial)); err != nil {
		return nil, err
	}
	if err := c.open(ctx, s, creator); err != nil {
		return nil, err
	}
	if s.frames, err = camera.NewReader(ctx, s.p); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { c.receive(running, s) })
	return s, nil
}

func (c *Center) dial(ctx context.Context) (net.Conn, error) {
	if c.station != nil {
		return c.station.dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", strings.TrimPrefix(c.cfg.Broker, "mqtt://"))
}

// open creates the lock topic, or becomes a member of the one that there is.
func (c *Center) open(ctx context.Context, s *session, creator bool) (err error) {
	options := []qosmutex.Option{
		qosmutex.WithResources(c.cfg.FrequencyNames()...),
		qosmutex.WithTiming(scenario.Timing()),
	}
	if !c.cfg.Chaos { // else it must not be the root, as it cannot be killed
		if s.voters, err = c.cfg.Register(s.p); err != nil {
			return err
		}
		options = append(options, qosmutex.Create(), qosmutex.WithRegister(s.voters))
	}
	if creator || c.cfg.Chaos { // else it comes back, and takes the models that are in force
		options = append(options, qosmutex.WithModels(c.cfg.Models))
	}
	priority := int64(asMember)
	if creator {
		priority = scenario.RootPriority
	}
	options = append(options, qosmutex.WithNodePriority(priority))
	for {
		s.topic, err = qosmutex.Open(ctx, s.p, scenario.LockTopic, options...)
		if creator || ctx.Err() != nil || !errors.Is(err, qosmutex.ErrNoRoot) {
			break // else the others still listen for another root
		}
	}
	if err != nil {
		return err
	}
	if role := s.topic.Status().Role; creator && role != protocol.Root {
		return fmt.Errorf("the center is a %v of lock topic %q at %s, not its root: end what else runs there, or use another broker", role, scenario.LockTopic, c.URL())
	}
	return nil
}

// receive takes in frames and looks at each picture. It is the resource that the
// lock protects, so it refuses what comes with an old fence.
func (c *Center) receive(ctx context.Context, s *session) {
	names, highest := c.cfg.FrequencyNames(), map[string]uint64{} // fence, by frequency
	for sample, err := range s.frames.Samples(ctx) {
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

func (s *session) close(ctx context.Context) error {
	var errs []error
	s.cancel()
	s.wg.Wait()
	if s.topic != nil {
		errs = append(errs, s.topic.Close(ctx))
	}
	if s.voters != nil {
		errs = append(errs, s.voters.Close())
	}
	if s.p != nil {
		errs = append(errs, s.p.Close(ctx))
	}
	return errors.Join(errs...)
}

// kill ends the session without a word to anybody and returns how many messages it
// had sent.
func (s *session) kill() uint64 {
	s.link.Break()
	sent := scenario.Messages(s.topic.Status().Counters)
	s.cancel()
	s.wg.Wait()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.p.Close(now)
	waiting, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.p.Close(waiting)
	return sent
}
