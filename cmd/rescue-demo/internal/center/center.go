// Package center is the rescue center: it runs the broker unless there is one,
// creates the lock topic of the frequencies, keeps who is its root, receives the frames, and decides
// between importance and fairness. It never locks a frequency itself.
package center

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"
)

// Center is a running rescue center. It is safe for concurrent use.
type Center struct {
	cfg     scenario.Config
	station *station // nil: another broker is used
	archive *archive // nil: others keep who is the root

	changing chan struct{} // holds one while the models are changed

	mu      sync.Mutex
	session *session
	changed chan struct{} // closed and replaced with session
	sent    uint64        // messages of the sessions that were killed

	received, bytes, bad, refused atomic.Uint64
}

// Frames counts what the center received.
type Frames struct {
	Received, Bytes uint64
	Bad             uint64 // could not be decoded
	// Refused frames had a lower fence than one before on their frequency: they were
	// sent after their robot's hold was over.
	Refused uint64
}

// Start brings up a center and creates the lock topic. Under chaos the broker, the
// voters and the root are others, which must be there. ctx bounds the starting.
func Start(ctx context.Context, cfg scenario.Config) (*Center, error) {
	c := &Center{cfg: cfg, changed: make(chan struct{}), changing: make(chan struct{}, 1)}
	if err := c.start(ctx); err != nil {
		// Not by ctx, which may be what ended the start.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Close(closing))
	}
	return c, nil
}

func (c *Center) start(ctx context.Context) (err error) {
	if c.cfg.Broker == "" {
		if c.station, err = startStation(ctx, c.cfg); err != nil {
			return err
		}
	}
	if !c.cfg.Chaos {
		if c.archive, err = openArchive(c.cfg, c.URL()); err != nil {
			return err
		}
	}
	s, err := c.join(ctx, c.cfg.Chaos, !c.cfg.Chaos)
	if err != nil {
		return err
	}
	c.install(s)
	return nil
}

func (c *Center) install(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// present returns the session, waiting for one while the center is dead.
func (c *Center) present(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, changed := c.session, c.changed
		c.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the center was killed and has not come back: %w", context.Cause(ctx))
		}
	}
}

// Kill ends the center's part in the lock and its receiving without a goodbye, as
// the failure of its computer does. The broker and the archive stay. Nothing happens
// when it is dead.
func (c *Center) Kill() {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return
	}
	c.install(nil)
	sent := s.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += sent
}

// Dead reports whether the center was killed and has not come back.
func (c *Center) Dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session == nil
}

// Return brings a killed center back, as a member below every robot.
func (c *Center) Return(ctx context.Context) error {
	s, err := c.join(ctx, true, false)
	if err == nil {
		c.install(s)
	}
	return err
}

// StopBroker ends the embedded broker, and StartBroker starts another at the same
// addresses, which knows nothing of what was before.
func (c *Center) StopBroker(ctx context.Context) error {
	if c.station == nil {
		return ErrForeignBroker
	}
	return c.station.stop(ctx)
}

// StartBroker undoes StopBroker.
func (c *Center) StartBroker(ctx context.Context) error {
	if c.station == nil {
		return ErrForeignBroker
	}
	return c.station.start(ctx)
}

// ErrForeignBroker says that the broker is not the center's.
var ErrForeignBroker = errors.New("the broker at --broker is not the demo's to stop")

// URL returns where the broker is.
func (c *Center) URL() string {
	if c.station != nil {
		return c.station.url
	}
	return c.cfg.Broker
}

// WebSocket returns the URL at which the embedded broker takes WebSockets, or "".
func (c *Center) WebSocket() string {
	if c.station == nil {
		return ""
	}
	return c.station.webSocket
}

// Frames returns what was received so far.
func (c *Center) Frames() Frames {
	return Frames{c.received.Load(), c.bytes.Load(), c.bad.Load(), c.refused.Load()}
}

// Fair switches the topic from Level to Fair, whatever the other models are by
// then, and returns when that is in force. A center that was killed is waited for.
func (c *Center) Fair(ctx context.Context) error {
	return c.ChangeModels(ctx, func(m qosmutex.Models) (qosmutex.Models, error) {
		m.Priority = qosmutex.Fair
		return m, nil
	})
}

// ChangeModels changes the models of the topic to what change makes of those in force,
// and returns when these are. Changes are made one after the other.
func (c *Center) ChangeModels(ctx context.Context, change func(qosmutex.Models) (qosmutex.Models, error)) error {
	select {
	case c.changing <- struct{}{}:
		defer func() { <-c.changing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s, err := c.present(ctx)
	if err != nil {
		return err
	}
	m, err := change(s.topic.Models())
	if err != nil {
		return err
	}
	return s.topic.Configure(ctx, qosmutex.WithModels(m))
}

// Messages returns how many messages that the papers count the center has sent.
func (c *Center) Messages() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.sent
	if c.session != nil {
		n += scenario.Messages(c.session.topic.Status().Counters)
	}
	return n
}

// Err returns why the lock topic has ended, nil while it runs.
func (c *Center) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return nil
	}
	return c.session.topic.Err()
}

// Close ends the center and its broker, and waits for both.
func (c *Center) Close(ctx context.Context) error {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	var errs []error
	if s != nil {
		errs = append(errs, s.close(ctx))
	}
	if c.archive != nil {
		errs = append(errs, c.archive.close())
	}
	if c.station != nil {
		errs = append(errs, c.station.stop(ctx))
	}
	return errors.Join(errs...)
}
