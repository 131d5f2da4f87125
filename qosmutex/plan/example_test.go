package plan_test

import (
	"context"
	"fmt"
	"log"

	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Seven participants of the papers' tree ask now and then, and messages are to be few.
func ExampleSolve() {
	goal, err := plan.ParseGoal("messages")
	if err != nil {
		log.Fatal(err)
	}
	p, err := plan.Solve(context.Background(), &plan.Problem{
		Contenders: plan.Contenders(plan.Contender{Algorithm: padme.Algorithm, Fanout: 2}, []protocol.Algorithm{classic.Central}, 7),
		Goals:      []plan.Goal{goal},
		Seed:       1, Runs: 50, Zone: 0.02,
		Setup: func(c plan.Contender, seed uint64) (plan.Setup, error) {
			sc := sim.PaperScenario(c.Models, protocol.Second)
			sc.Seed, sc.Workload.Think = seed, sim.Exponential(60*protocol.Second)
			return plan.Setup{Algorithm: c.Algorithm, Scenario: sc}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range p.Options {
		fmt.Printf("%s: %s\n", o.Role, o.Name)
	}
	// Output:
	// choice: central
	// runner-up: padme:LFFF, fan-out 2
}

func ExampleContenders() {
	today := plan.Contender{Algorithm: classic.Central}
	for _, c := range plan.Contenders(today, []protocol.Algorithm{classic.Central, padme.Algorithm}, 2)[:3] {
		fmt.Println(c)
	}
	// Output:
	// central
	// padme:LFFF, fan-out 8
	// padme:LRFF, fan-out 8
}

func ExampleParseRequirements() {
	all, err := plan.ParseRequirements("survive=root,holder")
	fmt.Println(all, err)
	_, err = plan.ParseRequirements("wait.p99 < soon")
	fmt.Println(err)
	// Output:
	// [survive=root survive=holder] <nil>
	// plan: wrong problem: requirement "wait.p99 < soon": "soon" is not a time such as 20ms or 3s
}

func ExampleParseGoal() {
	g, err := plan.ParseGoal("fairness")
	fmt.Println(g.Figure, g.Most(), err)
	// Output: fairness true <nil>
}

func ExampleFigureNames() {
	fmt.Println(plan.FigureNames()[:3])
	// Output: [wait.p50 wait.p99 wait.max]
}

func ExampleIsTime() {
	fmt.Println(plan.IsTime("wait.p99[0]"), plan.IsTime("messages"))
	// Output: true false
}

func ExampleHasTree() {
	fmt.Println(plan.HasTree(padme.Algorithm), plan.HasTree(classic.Central))
	// Output: true false
}

func ExampleInitials() {
	fmt.Println(plan.Initials(protocol.Models{Priority: protocol.Aging, Release: protocol.Direct}))
	// Output: AFFD
}
