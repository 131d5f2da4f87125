// Package telemetry publishes what there is to see of a run in addition to its locks, for
// any MQTT client, the page in the first place. All of it is retained JSON below
// R/show/, in the domain of the demo:
//
//	show/scene      Scene: what stays the same
//	show/survivors  []Survivor
//	show/robots     Robots, five times a second: also of those whose radio is cut
//	show/stays      []Stay: who had which frequency, the last of them
//	show/figures    Figures, as the observer judges them
//	show/count/{P}  robot.Count, not retained, by the robots themselves
//
// The locks publish the rest: who holds which frequency, who waits, the root and
// the models in force; and the pictures are on the frequencies. Places are in yards
// east and north of the area's south-western corner, times in milliseconds since
// 1970, durations in seconds.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
	"padme/pubsub"
)

const (
	robotsEvery = 200 * time.Millisecond
	restEvery   = 5   // times as long
	maxStays    = 300 // that are published
)

// Source is what is told of.
type Source struct {
	Config   scenario.Config
	Start    time.Time
	World    *world.World
	Observer *observer.Observer
	Messages func() uint64                                  // that the center has sent
	Life     func(number int) (life int, dead bool)         // of a robot
	Judge    func(now time.Time) (observer.Report, Verdict) // what was observed so far
}

// Telemetry publishes until Close.
type Telemetry struct {
	src    Source
	p      *pubsub.Participant
	frames *pubsub.Reader[camera.Frame]
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	found   map[int]bool                 // survivors of whom a picture has arrived, by index
	counts  map[string]robot.Count       // of the present lives
	earlier uint64                       // messages of earlier lives
	present [2][scenario.Classes]float64 // robots' time by class, under level and fair
	fair    bool                         // is in force, as last judged
}

// Participant joins the run for telemetry.
func Participant(ctx context.Context, url string, options ...pubsub.Option) (*pubsub.Participant, error) {
	return scenario.Join(ctx, true, url, scenario.Telemetry, options...)
}

// Start begins to publish by p, which stays its caller's.
func Start(ctx context.Context, p *pubsub.Participant, src Source) (*Telemetry, error) {
	running, cancel := context.WithCancel(context.Background())
	t := &Telemetry{src: src, p: p, cancel: cancel, found: map[int]bool{}, counts: map[string]robot.Count{}}
	_, err := p.SubscribeRaw(ctx, pubsub.Main, robot.CountTopic("+"), t.counted)
	if err == nil {
		t.frames, err = camera.NewReader(ctx, p)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	t.wg.Go(func() { t.watch(running) })
	t.wg.Go(func() { t.run(running) })
	return t, nil
}

func (t *Telemetry) run(ctx context.Context) {
	tick := time.NewTicker(robotsEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		t.publishRobots(time.Now())
		if n%restEvery == 0 {
			t.publishRest(time.Now(), false)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close tells for the last time how the run ended and waits until nothing more is
// published.
func (t *Telemetry) Close() {
	t.cancel()
	t.wg.Wait()
	t.publishRest(time.Now(), true)
}

// publish leaves v for whoever looks. Of what cannot be sent at once the latest is
// sent later.
func (t *Telemetry) publish(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of our own types
	}
	if err := t.p.PublishRaw(pubsub.Side, []string{"show", name}, text, true); errors.Is(err, pubsub.ErrInvalid) {
		panic(err)
	}
}

// counted takes in what a robot has sent. It must not block.
func (t *Telemetry) counted(m pubsub.RawMessage) {
	var c robot.Count
	if json.Unmarshal(m.Payload, &c) != nil {
		return
	}
	name := m.Levels[len(m.Levels)-1]
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.counts[name]
	if !known && len(t.counts) >= 2*t.src.Config.Robots {
		return // they are not all ours
	}
	if c.Incarnation != last.Incarnation {
		t.earlier += last.Messages
	}
	t.counts[name] = c
}

func (t *Telemetry) messages() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.earlier + t.src.Messages()
	for _, c := range t.counts {
		sum += c.Messages
	}
	return sum
}

// watch notes which survivors were in a picture.
func (t *Telemetry) watch(ctx context.Context) {
	for sample, err := range t.frames.Samples(ctx) {
		if err == nil && sample.Info.Valid {
			t.pictured(sample.Data.Robot, time.Now())
		}
	}
}

func (t *Telemetry) pictured(name string, now time.Time) {
	for number := 1; number <= t.src.Config.Robots; number++ {
		if scenario.RobotName(number) != name {
			continue
		}
		at := t.src.World.Place(number, now.Sub(t.src.Start))
		t.mu.Lock()
		for i, s := range t.src.World.Area().Survivors {
			if camera.Shows(at, s) {
				t.found[i] = true
			}
		}
		t.mu.Unlock()
	}
}
