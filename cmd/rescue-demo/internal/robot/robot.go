// Package robot is one robot of the scenario: it walks, looks for survivors,
// falls into radio shadows, and streams what its camera sees on a frequency that
// it has locked.
package robot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/radio"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/inboxes"
)

const (
	senseEvery = 20 * time.Millisecond // how often a robot looks around
	opening    = 5 * time.Second       // how long it looks for the lock topic
	returning  = 5 * time.Second       // bounds how long it takes to say goodbye
)

// Config is what a robot must know. It crosses processes as JSON.
type Config struct {
	Scenario scenario.Config
	Number   int       // from 1
	URL      string    // of the broker
	Start    time.Time // when the world begins to move
	// Journal gets a note each time that a hold passes Check while the robot is on
	// the air, from one goroutine. Nil: no notes.
	Journal func(Sighting) `json:"-"`

	// Changes made to the world before the robot was started.
	Changes []world.Change `json:",omitempty"`
	// World is the one that the robot lives in, and is told of further changes. Nil:
	// one of its own, with Changes.
	World *world.World `json:"-"`
	// Patient robots wait for a broker and a root that are not there.
	Patient bool
	// Watched says that somebody looks on and may interfere. The robot publishes how
	// many messages it has sent, see Count, and in a process of its own tells its
	// sightings.
	Watched bool
	// Kill, when closed, ends the robot at once and without a goodbye, as the end of
	// its process does. Nil: never.
	Kill <-chan struct{} `json:"-"`
}

// ErrKilled says that the robot was ended by Config.Kill.
var ErrKilled = errors.New("killed")

// robot is the state of a running one.
type robot struct {
	Config
	link   *radio.Link
	p      *pubsub.Participant
	topic  *qosmutex.Topic
	frames *pubsub.Writer[camera.Frame]
	voters *inboxes.Client // by which it can become the root

	place  atomic.Pointer[area.Point]
	report Report // Entries, Losses and Frames belong to transmit
}

// Run is the life of one robot, until ctx ends. It then comes back into radio
// contact, gives back what it holds, leaves and reports. The error tells why it
// gave up earlier.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r := &robot{Config: cfg, report: Report{Robot: scenario.RobotName(cfg.Number)}}
	if r.World == nil {
		r.World = world.New(cfg.Scenario, cfg.Changes...)
	}
	r.link = radio.New(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", strings.TrimPrefix(cfg.URL, "mqtt://"))
	})
	living, end := r.untilKilled(ctx)
	err := r.run(living)
	end()
	if errors.Is(context.Cause(living), ErrKilled) {
		r.vanish()
		return r.report, ErrKilled
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), returning)
	defer cancel()
	if ctx.Err() != nil {
		err = nil // it was told to stop, whatever it was waiting for
	}
	err = errors.Join(err, r.leave(leaving))
	r.report.Dropouts = r.link.Cuts()
	if err != nil {
		r.report.Error = err.Error()
		err = fmt.Errorf("%s: %w", r.report.Robot, err)
	}
	return r.report, err
}

// untilKilled returns a context that ends with ErrKilled once the robot is killed. By
// then nothing that it says gets through. end must be called, and waits.
func (r *robot) untilKilled(ctx context.Context) (_ context.Context, end func()) {
	ctx, die := context.WithCancelCause(ctx)
	lived := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.Kill:
			r.link.Break()
			die(ErrKilled)
		case <-lived:
		}
	})
	return ctx, func() {
		close(lived)
		watch.Wait()
		die(nil)
	}
}

func (r *robot) run(ctx context.Context) error {
	seen := r.sense()
	var err error
	if r.p, err = scenario.Join(ctx, r.patient(), r.URL, r.report.Robot, r.Scenario.InDomain(), pubsub.WithDialer(r.link.Dial)); err != nil {
		return err
	}
	if r.frames, err = camera.NewWriter(ctx, r.p); err != nil {
		return err
	}
	if r.topic, err = r.open(ctx, seen); err != nil {
		return err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var sensing sync.WaitGroup
	defer sensing.Wait()
	sensing.Go(func() {
		if err := r.walkAround(running, seen); err != nil {
			stop(err)
		}
	})
	if r.Watched {
		sensing.Go(func() { r.count(running) })
	}
	err = r.transmit(running)
	stop(err)
	if cause := context.Cause(running); ctx.Err() == nil && cause != nil {
		return cause
	}
	return err
}

func (r *robot) patient() bool { return r.Patient || r.Scenario.Chaos }

// open becomes a member of the lock topic. When dozens of robots come at once the
// center may be too busy to answer in time, so no answer is not taken for a no.
// Under chaos there may be no root for a while.
func (r *robot) open(ctx context.Context, seen int) (*qosmutex.Topic, error) {
	var err error
	if r.voters, err = r.Scenario.Register(r.p); err != nil {
		return nil, err
	}
	began := time.Now()
	for {
		topic, err := qosmutex.Open(ctx, r.p, scenario.LockTopic,
			qosmutex.WithRegister(r.voters), qosmutex.WithTiming(scenario.Timing()), qosmutex.WithNodePriority(scenario.Priority(seen)))
		if !errors.Is(err, qosmutex.ErrNoRoot) || ctx.Err() != nil || !r.patient() && time.Since(began) > opening {
			return topic, err
		}
	}
}

// sense moves the robot to where it is now and returns how many survivors it
// sees there.
func (r *robot) sense() int {
	p := r.World.Place(r.Number, time.Since(r.Start))
	r.place.Store(&p)
	return len(r.World.Area().Seen(p))
}

// walkAround lets the robot walk until ctx ends: what it sees becomes its
// priority at once, and a shadow cuts its radio, as its failure does.
func (r *robot) walkAround(ctx context.Context, seen int) error {
	tick := time.NewTicker(senseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.topic.Done():
			return r.topic.Err()
		case <-tick.C:
		}
		if now := r.sense(); now != seen {
			seen = now
			if err := r.topic.SetPriority(scenario.Priority(seen)); err != nil {
				return err
			}
		}
		if r.World.Failed(r.Number) || r.World.Area().Shadowed(*r.place.Load()) {
			r.link.Cut()
		} else {
			r.link.Restore()
		}
	}
}

// leave says goodbye. A robot whose connection is still coming back waits for it,
// so that the others hear.
func (r *robot) leave(ctx context.Context) error {
	if r.p == nil {
		return nil
	}
	r.link.Restore()
	err := r.awaitContact(ctx)
	if r.topic != nil {
		err = errors.Join(err, r.topic.Close(ctx))
		r.report.Messages = scenario.Messages(r.topic.Status().Counters)
	}
	if r.voters != nil {
		err = errors.Join(err, r.voters.Close())
	}
	closed := r.p.Close(ctx)
	if err != nil {
		return err // and nobody to say goodbye to
	}
	return closed
}

// vanish ends what is left of a killed robot, of which nothing gets out any more.
func (r *robot) vanish() {
	if r.topic != nil {
		r.report.Messages = scenario.Messages(r.topic.Status().Counters)
	}
	if r.p == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.p.Close(now)
	waiting, cancel := context.WithTimeout(context.Background(), returning)
	defer cancel()
	_ = r.p.Close(waiting)
}

func (r *robot) awaitContact(ctx context.Context) error {
	up := make(chan struct{}, 1)
	stop := r.p.Notify(func(connected bool) {
		if connected {
			select {
			case up <- struct{}{}:
			default:
			}
		}
	})
	defer stop()
	if r.p.Connected() {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-r.p.Done():
		return r.p.Err()
	case <-ctx.Done():
		return fmt.Errorf("no connection to %s when it had to come back: see whether the broker still runs", r.URL)
	}
}
