package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"padme/internal/wait"
)

// Actor is somebody that takes part as a process.
type Actor interface {
	Name() string
	Kill() error     // ends it without a warning, and returns when it is gone
	Start() error    // starts another process under the same name
	Stop() error     // puts it to sleep in the middle of whatever it does
	Continue() error // lets it go on
}

// Cast is whom there is to break.
type Cast struct {
	Robots []Actor
	Broker Actor
	// Wipe loses what a broker that is not running had stored.
	Wipe func() error
	// Root names the participant that is the root now, as far as was published;
	// empty: nobody.
	Root func() string
	// Base is the root at first. Killed, it stays away: another one takes over.
	Base Actor
	// Voters keep who is the root.
	Voters []Actor
	// Holders names the participants that hold a frequency, as far as was published.
	Holders func() []string
}

// Act is something that was done.
type Act struct {
	At     time.Duration // from the start of the run
	Kind   Kind
	Target string
	Over   bool // it was undone: its target is back
}

func (a Act) String() string {
	did := map[Kind][2]string{
		KillRobot: {"killed", "started again"}, StopRobot: {"stopped", "continued"}, KillRoot: {"killed, the root", "started again"},
		KillVoter:  {"killed", "started again with its file"},
		KillBroker: {"killed", "started again with its data"}, WipeBroker: {"killed", "started again without its data"},
	}[a.Kind]
	if a.Over {
		return a.Target + " " + did[1]
	}
	return a.Target + " " + did[0]
}

// Director breaks a run as planned.
type Director struct {
	cast  Cast
	start time.Time

	mu   sync.Mutex
	busy map[string]bool // targets that are away
	acts []Act
	errs []error
}

// NewDirector returns a director of a run that began at start.
func NewDirector(cast Cast, start time.Time) *Director {
	return &Director{cast: cast, start: start, busy: map[string]bool{}}
}

// Run carries out the plan and returns when it is over or ctx has ended. Whatever
// is stopped then goes on; what was killed stays so when ctx ended early.
func (d *Director) Run(ctx context.Context, plan []Fault) {
	var faults sync.WaitGroup
	defer faults.Wait()
	for _, f := range plan {
		if !wait.Sleep(ctx, time.Until(d.start.Add(f.At))) {
			return
		}
		faults.Go(func() { d.inflict(ctx, f) })
	}
}

// rootSought is how long a root is looked for: the last one may have died a moment ago.
const rootSought = 5 * time.Second

func (d *Director) inflict(ctx context.Context, f Fault) {
	target := d.choose(f)
	for tries := time.Now(); target == nil && f.Kind == KillRoot && time.Since(tries) < rootSought; target = d.choose(f) {
		if !wait.Sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
	if target == nil {
		return // nobody is left to break
	}
	if f.Kind == StopRobot {
		d.did(f.Kind, target, false, target.Stop())
		wait.Sleep(ctx, f.Lasts)
		d.did(f.Kind, target, true, target.Continue())
		d.free(target)
		return
	}
	d.did(f.Kind, target, false, target.Kill())
	if target == d.cast.Base || !wait.Sleep(ctx, f.Lasts) {
		return // it stays away
	}
	var err error
	if f.Kind == WipeBroker {
		err = d.cast.Wipe()
	}
	if err = errors.Join(err, target.Start()); err != nil && ctx.Err() != nil {
		return // the run is over
	}
	d.did(f.Kind, target, true, err)
	d.free(target)
}

// choose reserves whom a fault hits; nil: nobody who is not away already.
func (d *Director) choose(f Fault) Actor {
	root, holders := d.cast.Root(), d.cast.Holders() // which may block
	d.mu.Lock()
	defer d.mu.Unlock()
	var candidates []Actor
	switch f.Kind {
	case KillBroker, WipeBroker:
		candidates = []Actor{d.cast.Broker}
	case KillRoot:
		candidates = slices.DeleteFunc(append(slices.Clone(d.cast.Robots), d.cast.Base), func(a Actor) bool { return a.Name() != root })
	case KillVoter:
		candidates = slices.Clone(d.cast.Voters)
	default:
		candidates = slices.Clone(d.cast.Robots)
	}
	candidates = slices.DeleteFunc(candidates, func(a Actor) bool { return d.busy[a.Name()] })
	if f.Holder {
		holding := slices.DeleteFunc(slices.Clone(candidates), func(a Actor) bool { return !slices.Contains(holders, a.Name()) })
		if len(holding) > 0 {
			candidates = holding
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	a := candidates[f.Pick%uint64(len(candidates))]
	d.busy[a.Name()] = true
	return a
}

func (d *Director) free(a Actor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, a.Name())
}

func (d *Director) did(kind Kind, target Actor, over bool, err error) {
	a := Act{At: time.Since(d.start), Kind: kind, Target: target.Name(), Over: over}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acts = append(d.acts, a)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", a, err))
	}
}

// Acts returns what was done so far, in order.
func (d *Director) Acts() []Act {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.acts)
}

// Err returns what of it did not succeed.
func (d *Director) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}

// Count returns how many faults of each kind happened.
func Count(acts []Act) map[Kind]int {
	n := map[Kind]int{}
	for _, a := range acts {
		if !a.Over {
			n[a.Kind]++
		}
	}
	return n
}

// Total returns how many faults happened.
func Total(acts []Act) (n int) {
	for _, of := range Count(acts) {
		n += of
	}
	return n
}

// Calm returns since when nothing has been done.
func Calm(acts []Act) time.Duration {
	if len(acts) == 0 {
		return 0
	}
	return acts[len(acts)-1].At
}

// Tell sums up the counts for people.
func Tell(n map[Kind]int) string {
	return fmt.Sprintf("killed: robots %d, roots %d, voters %d, brokers %d, wiped %d; robots stopped %d",
		n[KillRobot], n[KillRoot], n[KillVoter], n[KillBroker], n[WipeBroker], n[StopRobot])
}
