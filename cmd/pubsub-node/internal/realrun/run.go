package realrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"padme/broker"
	"padme/qosmutex"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Run is a run over the real stack: Start, Execute, Close.
type Run struct {
	scenario  sim.Scenario
	broker    *broker.Broker
	processes []*process
}

// lockName is the topic of a run.
const lockName = "verify"

// Start starts a broker and the processes of a scenario's participants. Each runs command,
// which must call Participate; what they say goes to stderr. The caller must Close the run.
func Start(ctx context.Context, algorithm protocol.Algorithm, sc sim.Scenario, fanout int, command []string, stderr io.Writer) (*Run, error) {
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		return nil, fmt.Errorf("the broker of the run: %w", err)
	}
	r := &Run{scenario: sc, broker: b}
	for i := range sc.Participants {
		p, err := begin(command, stderr, r.orderOf(i, algorithm, fanout))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.processes = append(r.processes, p)
	}
	for _, p := range r.processes {
		if _, err := p.hear(ctx); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// orderOf is what a participant is told.
func (r *Run) orderOf(i int, algorithm protocol.Algorithm, fanout int) *order {
	sc, p := &r.scenario, &r.scenario.Participants[i]
	t := &sc.Timing
	o := &order{
		URL: r.broker.URL(), ID: p.ID, Priority: p.Priority, Lock: lockName, First: p.Root || p.Creates, Fanout: fanout,
		Timing: qosmutex.Timing{
			TTL: time.Duration(t.TTL), Heartbeat: time.Duration(t.Heartbeat), Drift: t.Drift,
			JoinWait: time.Duration(t.JoinWait), MoveAfter: time.Duration(t.MoveAfter), Hop: time.Duration(t.Hop),
		},
		Models: sc.Settings.Models.String(), Resources: sc.Settings.Resources,
		Lasts: time.Duration(sc.Duration), Delays: delaysOf(sc, i),
	}
	if !p.Candidate {
		o.Parent = p.Parent
	}
	if algorithm.Static {
		o.Algorithm = algorithm.Name
	}
	for j := range sc.Participants {
		o.Members = append(o.Members, sc.Participants[j].ID)
	}
	o.Flat = flatOf(o.Delays)
	o.Loop, o.Clock = schedule(sc, i)
	return o
}

// Measured is what happened in a run.
type Measured struct {
	Outcomes []plan.Outcome
	// Delays are how much longer than in the scenario messages took that went from one
	// participant to another in addition to those of the lock: what the broker, processes
	// and timers added.
	Delays []Delay
	Lost   int // holds that ended while somebody was inside
}

// Execute opens the topic, waits for as long as the simulator until everybody has settled, and
// makes the requests.
func (r *Run) Execute(ctx context.Context) (*Measured, error) {
	begun, err := r.openAll(ctx)
	if err != nil {
		return nil, err
	}
	settled := max(r.scenario.Start, r.scenario.Timing.Grace()) // there are no entries before a new topic's grace
	at := begun.Add(time.Duration(settled))
	if soon := time.Now().Add(100 * time.Millisecond); at.Before(soon) {
		at = soon
	}
	for _, p := range r.processes {
		if err := p.tell(step{Do: start, At: at}); err != nil {
			return nil, err
		}
	}
	m := new(Measured)
	for _, p := range r.processes {
		a, err := p.hear(ctx)
		if err != nil {
			return nil, err
		}
		m.Outcomes, m.Lost = append(m.Outcomes, a.Outcomes...), m.Lost+a.Lost
		m.Delays = append(m.Delays, a.Delays...)
	}
	return m, nil
}

// openAll has everybody open the topic, in the order in which they join in the simulator, the
// one who creates it first. begun is when that one did.
func (r *Run) openAll(ctx context.Context) (begun time.Time, err error) {
	turns := make([]int, len(r.processes))
	for i := range turns {
		turns[i] = i
	}
	of := func(i int) *sim.Participant { return &r.scenario.Participants[i] }
	slices.SortStableFunc(turns, func(i, j int) int { return cmp.Compare(of(i).Joins, of(j).Joins) })
	for n, i := range turns {
		if !sleep(ctx, time.Until(begun.Add(time.Duration(of(i).Joins)))) {
			return begun, context.Cause(ctx)
		}
		if err := r.processes[i].tell(step{Do: open}); err != nil {
			return begun, err
		}
		if n == 0 {
			if _, err := r.processes[i].hear(ctx); err != nil {
				return begun, err
			}
			begun = time.Now()
		}
	}
	for _, i := range turns[1:] {
		if _, err := r.processes[i].hear(ctx); err != nil {
			return begun, err
		}
	}
	return begun, nil
}

// Close ends the processes and the broker.
func (r *Run) Close() error {
	for _, p := range r.processes {
		p.dismiss()
	}
	for _, p := range r.processes {
		p.wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return r.broker.Close(ctx)
}
