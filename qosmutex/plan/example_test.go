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

// constantWaits is a problem whose participants ask one after another.
func constantWaits() *plan.Problem {
	return &plan.Problem{Setup: func(c plan.Contender, seed uint64) (plan.Setup, error) {
		sc := sim.PaperScenario(c.Models, protocol.Second)
		sc.Seed, sc.Workload.Think = seed, sim.Exponential(60*protocol.Second)
		return plan.Setup{Algorithm: c.Algorithm, Scenario: sc}, nil
	}}
}

func ExamplePredict() {
	runs, err := plan.Predict(context.Background(), constantWaits(), &plan.Contender{Algorithm: classic.Central}, []uint64{1, 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range runs {
		fmt.Printf("%.0f entries, half of them within %.0f s\n", f["entries"], f["wait.p50"])
	}
	// Output:
	// 45 entries, half of them within 2 s
	// 46 entries, half of them within 2 s
}

func ExampleProblem_ScenarioOf() {
	sc, err := constantWaits().ScenarioOf(&plan.Contender{Algorithm: classic.Central}, 1)
	fmt.Println(len(sc.Participants), sc.Workload.Settled, err)
	// Output: 7 true <nil>
}

func ExampleObserved() {
	f := plan.Observed([]plan.Outcome{
		{Asked: 1 * protocol.Second, End: plan.Entered, At: 3 * protocol.Second},
		{Asked: 5 * protocol.Second, End: plan.Waits},
	}, 60*protocol.Second)
	fmt.Println(f["entries"], f["wait.p50"], f["wait.max"])
	// Output: 1 2 55
}

func ExampleVerify() {
	ctx, c := context.Background(), &plan.Contender{Algorithm: classic.Central}
	var seeds []uint64
	for seed := range uint64(plan.VerifyRuns) {
		seeds = append(seeds, seed)
	}
	predicted, err := plan.Predict(ctx, constantWaits(), c, seeds)
	if err != nil {
		log.Fatal(err)
	}
	v := plan.Verify(predicted, nil, plan.Figures{"entries": 40, "wait.p50[0]": 0.5, "wait.p50[1]": 12})
	for _, r := range v.Rows {
		fmt.Printf("%s from %.1f to %.1f, measured %.1f, inside: %v\n", r.Figure, r.Low, r.High, r.Measured, r.Inside)
	}
	fmt.Println("fits:", v.Fits)
	// Output:
	// wait.p50[0] from 0.0 to 1.4, measured 0.5, inside: true
	// wait.p50[1] from 2.0 to 2.3, measured 12.0, inside: false
	// entries from 28.0 to 51.0, measured 40.0, inside: true
	// fits: false
}
