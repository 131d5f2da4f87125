package main

import (
	"fmt"

	"padme/qosmutex/classic"
	"padme/qosmutex/sim/chart"
	"padme/tests/papers/bench"
)

var votingTopic = topic{
	name: "voting", title: "Voting: the probability of breaking exclusivity",
	about: "The lecture's bound for coordinators that forget, against a simulation of its model and against the machines themselves.",
	build: buildVoting,
}

// trials of the model; below a few in a million it has nothing to say.
const (
	votingTrials = 200_000
	votingStays  = 40_000 // critical sections of each run of the machines
	votingLeast  = 5      // breaches below which a share is left out
)

func buildVoting(p *page) error {
	p.text("**The bound.** Of n coordinators, m > n/2 voted for the one inside, and the others for a rival. Each of the m forgets within Δt with probability p = Δt/T, where T is its average lifetime. Exclusivity is broken if at least 2m-n do: the sum over k from 2m-n to m of C(m,k) p^k (1-p)^(m-k).")
	for _, part := range []func(*page) error{votingByN, votingByMajority, votingMachines} {
		if err := part(p); err != nil {
			return err
		}
	}
	return nil
}

// votingByN shows the least majorities, m = ⌊n/2⌋+1.
func votingByN(p *page) error {
	c := &chart.Lines{Title: "Probability to break exclusivity, m = (n+1)/2", X: "coordinators n", Y: "probability", LogY: true}
	head := []string{"n"}
	sizes := []int{3, 5, 7, 9, 13, 17, 21, 25, 31}
	cells := make([][]string, len(sizes))
	for i, n := range sizes {
		cells[i] = []string{fmt.Sprint(n)}
	}
	for _, chance := range []float64{0.01, 0.05, 0.1} {
		name := fmt.Sprintf("p = %v", chance)
		bound, model := chart.Curve{Name: name + ", bound"}, chart.Curve{Name: name + ", simulated"}
		for i, n := range sizes {
			cells[i] = append(cells[i], votingPoint(&bound, &model, float64(n), n, n/2+1, chance)...)
		}
		c.Curves = append(c.Curves, bound, model)
		head = append(head, name+": bound", "simulated")
	}
	p.text(fmt.Sprintf("## The least majority\n\nEach simulated point is the vote-switch model of the lecture's pictures, played %d times. The least majority is no safer with more coordinators: one that forgets is enough, and there are more of them.", votingTrials))
	if err := p.chart("voting-coordinators", "probability by number of coordinators", c); err != nil {
		return err
	}
	p.table(head, cells)
	return nil
}

// votingByMajority shows what a larger majority buys.
func votingByMajority(p *page) error {
	const n = 32
	c := &chart.Lines{Title: fmt.Sprintf("Probability to break exclusivity, n = %d", n), X: "votes needed m", Y: "probability", LogY: true}
	head := []string{"m"}
	votes := []int{17, 18, 19, 20, 21, 22}
	cells := make([][]string, len(votes))
	for i, m := range votes {
		cells[i] = []string{fmt.Sprint(m)}
	}
	for _, chance := range []float64{0.05, 0.1, 0.2} {
		name := fmt.Sprintf("p = %v", chance)
		bound, model := chart.Curve{Name: name + ", bound"}, chart.Curve{Name: name + ", simulated"}
		for i, m := range votes {
			cells[i] = append(cells[i], votingPoint(&bound, &model, float64(m), n, m, chance)...)
		}
		c.Curves = append(c.Curves, bound, model)
		head = append(head, name+": bound", "simulated")
	}
	p.text("## A larger majority\n\nWith more votes than it needs, exclusivity breaks orders of magnitude more seldom, and fewer failures are survived.")
	if err := p.chart("voting-majority", "probability by size of the majority", c); err != nil {
		return err
	}
	p.table(head, cells)
	return nil
}

// votingPoint adds one point to the curves, and returns it as two cells.
func votingPoint(bound, model *chart.Curve, x float64, n, m int, p float64) []string {
	b := classic.ViolationBound(n, m, p)
	s := bench.VoteSwitch(n, m, p, votingTrials, 1)
	bound.X, bound.Y = append(bound.X, x), append(bound.Y, b)
	simulated := "—"
	if s*votingTrials >= votingLeast {
		model.X, model.Y = append(model.X, x), append(model.Y, s)
		simulated = fmt.Sprintf("%.3g", s)
	}
	return []string{fmt.Sprintf("%.3g", b), simulated}
}

// votingMachines runs the real protocol.
func votingMachines(p *page) error {
	const n, m = bench.ForgetfulN, bench.ForgetfulN/2 + 1
	bound := chart.Curve{Name: "bound: the one inside has m votes"}
	all := chart.Curve{Name: "the one inside has all n votes"}
	machines := chart.Curve{Name: "machines"}
	var cells [][]string
	for _, chance := range []float64{0.02, 0.03, 0.05, 0.1, 0.2, 0.3} {
		r, err := bench.Forgetful(chance, votingStays)
		if err != nil {
			return err
		}
		b, a := classic.ViolationBound(n, m, chance), bench.AtLeast(n, m, chance)
		bound.X, bound.Y = append(bound.X, chance), append(bound.Y, b)
		all.X, all.Y = append(all.X, chance), append(all.Y, a)
		measured := "—"
		if r.Overlaps >= votingLeast {
			machines.X, machines.Y = append(machines.X, chance), append(machines.Y, r.Measured())
			measured = fmt.Sprintf("%.3g", r.Measured())
		}
		cells = append(cells, []string{
			fmt.Sprint(chance), fmt.Sprintf("%.3g", b), fmt.Sprintf("%.3g", a), measured, fmt.Sprint(r.Overlaps), fmt.Sprint(r.Entries),
		})
	}
	p.text(fmt.Sprintf("## The machines\n\nFive participants run `voting-forgetful` in the simulator, and entries that find another inside are counted. *Request policy:* each asks again t_m after it leaves; a critical section takes 4000 t_m, so that those outside try again often. p is the probability that a coordinator forgets while its vote is out, from its Reply to the Release. n = %d, m = %d.", n, m))
	c := &chart.Lines{
		Title: "Entries that find another inside, n = 5", X: "p", Y: "share of the entries", LogX: true, LogY: true,
		Curves: []chart.Curve{bound, all, machines},
	}
	if err := p.chart("voting-machines", "the machines against the bound", c); err != nil {
		return err
	}
	p.table([]string{"p", "bound", "all n votes", "machines", "breaches", "entries"}, cells)
	p.text("The bound is conservative, as the lecture says: the one inside has mostly all n votes, for it asked when nobody else was about to enter, and then m of n have to forget. The machines come out near that, and well below the bound. They are somewhat above it: who entered against a rival has fewer votes, and where p is large a third may enter while two are inside.")
	return nil
}
