package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"padme/cmd/pubsub-node/internal/realrun"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// verification is what --verify found out.
type verification struct {
	*plan.Verification
	Lasted float64 `json:"lasted"` // seconds
	Delays delays  `json:"delays"`
	Lost   int     `json:"lost"` // holds that ended while their participant was inside

	participants int
}

// delays are how much longer messages took than in the workload, in seconds.
type delays struct {
	Messages int     `json:"messages"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// planDocument is what --json prints.
type planDocument struct {
	*plan.Plan
	Verification *verification `json:"verification,omitempty"`
}

// participateVerb is the command of the processes of a real run. It is for this program only.
const participateVerb = "participate"

func newParticipate() *cobra.Command {
	return &cobra.Command{
		Use: participateVerb, Hidden: true, Args: noArgs,
		Short: "Be a participant of the run of plan --verify",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return realrun.Participate(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

// leastVerified is how long a real run must last.
const leastVerified = time.Second

// mostProcesses is how many participants --verify runs on one machine.
const mostProcesses = 50

// verifiable says what a real run cannot do, before the plan takes its time.
func (f *planFlags) verifiable() error {
	s := f.spec
	what := ""
	switch {
	case f.verify < leastVerified:
		return usageError("--verify %v: give at least %v, or there is nothing to compare", f.verify, leastVerified)
	case s.nodes > mostProcesses:
		return usageError("--verify runs a process for each participant, %d at most, and these are %d: leave it out, or describe a part of them", mostProcesses, s.nodes)
	case len(s.faults) > 0:
		what = "faults"
	case s.lossy() != "":
		what = "a network that " + s.lossy()
	case s.drift.value > 0:
		what = "clocks that drift"
	default:
		return nil
	}
	return usageError("--verify: the workload has %s, which a real run does not make: leave them out to verify the rest, or leave out --verify", what)
}

// verified runs the choice over the real stack, and compares.
func (f *planFlags) verified(ctx context.Context, p *plan.Problem, c *plan.Contender) (v *verification, err error) {
	const realSeed = 1 << 33 // other than all by which was chosen and predicted
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "pubsub-node: verifying over the real stack for %v\n", f.verify)
	}
	real := *p
	real.Setup = func(c plan.Contender, seed uint64) (plan.Setup, error) {
		setup, err := p.Setup(c, seed)
		setup.Scenario.Duration = protocol.Duration(f.verify)
		return setup, err
	}
	sc, err := real.ScenarioOf(c, p.Seed+realSeed)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run, err := realrun.Start(ctx, c.Algorithm, sc, f.fanoutOf(c), []string{self, os.Args[0], participateVerb}, os.Stderr)
	if err != nil {
		return nil, f.unverified(ctx, err)
	}
	defer func() {
		if closed := run.Close(); err == nil {
			err = closed
		}
	}()
	m, err := run.Execute(ctx)
	if err != nil {
		return nil, f.unverified(ctx, err)
	}
	unhindered := real.Setup
	real.Setup = func(c plan.Contender, seed uint64) (plan.Setup, error) {
		setup, err := unhindered(c, seed)
		setup.Prepare = func(run *sim.Sim, sc *sim.Scenario) { hinder(run, sc, m.Delays) }
		return setup, err
	}
	var seeds []uint64
	for k := range uint64(plan.VerifyRuns + 1) {
		seeds = append(seeds, p.Seed+realSeed+k)
	}
	predicted, err := plan.Predict(ctx, &real, c, seeds)
	if err != nil {
		return nil, f.unverified(ctx, err)
	}
	took := sim.SampleOf(tookOf(m.Delays)...)
	return &verification{
		Verification: plan.Verify(predicted[1:], predicted[0], plan.Observed(m.Outcomes, sc.Duration)),
		Lasted:       f.verify.Seconds(), Lost: m.Lost, participants: len(sc.Participants),
		Delays: delays{len(m.Delays), spanOf(took.Quantile(0.5)), spanOf(took.Quantile(0.99))},
	}, nil
}

// hinder has simulated messages take as much longer as others took in the same second of the
// real run: where a machine has other work, late messages come together.
func hinder(run *sim.Sim, sc *sim.Scenario, all []realrun.Delay) {
	if len(all) == 0 { // one participant sends itself nothing
		return
	}
	bySecond := map[protocol.Time][]protocol.Duration{}
	for _, d := range all {
		bySecond[d.At/protocol.Second] = append(bySecond[d.At/protocol.Second], d.Took)
	}
	every := tookOf(all)
	for second := range (sc.Duration + protocol.Second - 1) / protocol.Second {
		net := sc.Network
		net.Latency = sim.Measured{Base: net.Latency, Samples: every}
		if some := bySecond[second]; len(some) > 0 {
			net.Latency = sim.Measured{Base: sc.Network.Latency, Samples: some}
		}
		run.At(sc.Start+second*protocol.Second, func() { run.SetNetwork(net) })
	}
}

func tookOf(all []realrun.Delay) (took []protocol.Duration) {
	for _, d := range all {
		took = append(took, d.Took)
	}
	return took
}

func spanOf(d protocol.Duration) float64 { return float64(d) / float64(protocol.Second) }

// unverified says why there is no comparison.
func (f *planFlags) unverified(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: the plan is not verified", err)
}

// fanoutOf is that of the tree in which a choice is simulated.
func (f *planFlags) fanoutOf(c *plan.Contender) int {
	if c.Fanout > 0 {
		return c.Fanout
	}
	return f.spec.fanout
}
