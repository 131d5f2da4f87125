package main

import (
	"fmt"
	"strings"

	"padme/qosmutex/classic"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sim/chart"
	"padme/tests/papers/bench"
)

var padmeTopic = topic{
	name: "padme", title: "PADME: differentiation and throughput",
	about: "Entries by priority and in total for all sixteen combinations of models, and messages per entry (PADME §4, Figures 6 to 9; the cloud paper §3, Figures 7 to 10).",
	build: buildPADME,
}

func buildPADME(p *page) error {
	p.text(`**Assumed.** A complete binary tree of seven: one participant of high, two of medium, four of low importance; critical section 1 s; 360 s. *Request policy:* each participant asks again t_m after it leaves. At one instant applications act before messages arrive, as the correction that the paper itself proposes in §4.1 demands. Start and end of a run make a difference of ±2 entries.

**Names.** The initials of Priority-Request-Reply-Release as in the paper: LFUF is Level-Forward-Use-Forward; R is Replace.`)
	for _, latency := range []protocol.Duration{protocol.Second, protocol.Second / 2} {
		if err := padmeAt(p, latency); err != nil {
			return err
		}
	}
	p.text(`## What the paper says, and where it differs

- Stated and matched: the optimum of 180 and 240 entries; Fair-Forward-Forward-Forward alone is below the centralized 120 at t_m = 1 s; under Level with constant demand leaves never enter; Replace equals Forward (the cloud paper expects it, without having it). Only the messages differ: a participant that has passed a more important request up need not pass this one.
- How many Requests Replace saves is a matter of reading. The paper sends one "if there are no Request messages in its priority queue, or if the new Request is of higher priority than the last one that was sent", and does not say what follows when that one has been served and others wait. Here the best of these is sent then, because the root would not know of them otherwise. A reading that sends it at another time counts other Requests, more or fewer.
- The paper's 170 entries for a centralized server at t_m = 0.5 s are a slip: its own formula gives 360/(1 + 2·0.5) = 180.
- "Every model equals or outperforms a centralized solution" at 0.5 s does not hold for Fair-Forward-Forward-Forward: each entry costs it 20/7 t_m on average where the server's costs 2.
- The paper's bars above the optimum are the double entry that it admits to in §4.2: a participant enters twice around one Release. Here nobody does.
- "1 ms" and "0.5 ms" in the captions of the cloud paper, and in the setup of §4.2, mean 1 s and 0.5 s: its figures are for those.`)
	return padmePolicy(p)
}

func padmeAt(p *page, latency protocol.Duration) error {
	var rows []bench.PADMERow
	for _, m := range protocol.AllModels() {
		r, err := bench.PADME(m, latency)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	central, err := centralEntries(latency)
	if err != nil {
		return err
	}
	seconds, suffix := "1 s", "1s"
	if latency < protocol.Second {
		seconds, suffix = "0.5 s", "500ms"
	}
	p.text("## t_m = " + seconds)
	if err := p.chart("padme-differentiation-"+suffix, "entries by priority, t_m = "+seconds, differentiation(rows, seconds)); err != nil {
		return err
	}
	if err := p.chart("padme-throughput-"+suffix, "entries in total, t_m = "+seconds, throughput(rows, latency, seconds)); err != nil {
		return err
	}
	head := []string{"models", "high", "medium", "low", "total", "worked out: high/medium/low = total", "messages per entry", "worked out"}
	var cells [][]string
	for _, r := range rows {
		w := bench.PADMEWorkedOut(r.Models, latency)
		each := number(w.PerEntry, 2)
		if r.Models.Request == protocol.RequestReplace {
			each = "fewer than Forward"
		}
		cells = append(cells, []string{
			r.Models.String(), fmt.Sprint(r.High), fmt.Sprint(r.Medium), fmt.Sprint(r.Low), fmt.Sprint(r.Total()),
			fmt.Sprintf("%d/%d/%d = %d", w.High, w.Medium, w.Low, w.Total()), number(r.PerEntry, 2), each,
		})
	}
	p.table(head, cells)
	p.text(fmt.Sprintf("Centralized: %d by the formula 360/(1 + 2 t_m), %d measured with a server that does not ask itself. Optimum: %d by the formula 360/(1 + t_m).",
		bench.Centralized(latency), central, bench.Optimum(latency)))
	return nil
}

// initials are the paper's short name of a combination.
func initials(m protocol.Models) string {
	var b strings.Builder
	for _, word := range strings.Split(m.String(), "-") {
		b.WriteString(strings.ToUpper(word[:1]))
	}
	return b.String()
}

func differentiation(rows []bench.PADMERow, seconds string) *chart.Bars {
	b := &chart.Bars{
		Title: "PADME, entries by priority in 360 s, t_m = " + seconds, X: "Priority-Request-Reply-Release", Y: "entries",
		Series: []chart.Series{{Name: "high (1)"}, {Name: "medium (2)"}, {Name: "low (4)"}},
	}
	for _, r := range rows {
		b.Categories = append(b.Categories, initials(r.Models))
		for i, n := range []int{r.High, r.Medium, r.Low} {
			b.Series[i].Values = append(b.Series[i].Values, float64(n))
		}
	}
	return b
}

func throughput(rows []bench.PADMERow, latency protocol.Duration, seconds string) *chart.Bars {
	b := &chart.Bars{
		Title: "PADME, entries in 360 s, t_m = " + seconds, X: "Priority-Request-Reply-Release", Y: "entries",
		Series: []chart.Series{{Name: "entries"}},
	}
	for _, r := range rows {
		b.Categories = append(b.Categories, initials(r.Models))
		b.Series[0].Values = append(b.Series[0].Values, float64(r.Total()))
	}
	for _, ref := range []struct {
		name  string
		value int
	}{{"optimum", bench.Optimum(latency)}, {"centralized", bench.Centralized(latency)}} {
		b.References = append(b.References, chart.Reference{Label: fmt.Sprintf("%s %d", ref.name, ref.value), Value: float64(ref.value)})
	}
	return b
}

// centralEntries measures a central server in the same scenario, at the root.
func centralEntries(latency protocol.Duration) (int, error) {
	sc := sim.PaperScenario(protocol.Models{}, latency)
	sc.Participants[0].Workload = &sim.Workload{}
	r, err := bench.Run(classic.Central, sc)
	if err != nil {
		return 0, err
	}
	return r.Entries, nil
}

// padmePolicy shows what the request policy decides.
func padmePolicy(p *page) error {
	p.text("## The request policy decides the result\n\nThe same with the next request ready at the moment of leaving, t_m = 1 s.")
	var cells [][]string
	for _, m := range protocol.AllModels() {
		if m.Request != protocol.RequestForward {
			continue
		}
		r, err := bench.PADMEReady(m, protocol.Second)
		if err != nil {
			return err
		}
		cells = append(cells, []string{
			m.String(), fmt.Sprint(r.High), fmt.Sprint(r.Medium), fmt.Sprint(r.Low), fmt.Sprint(r.Total()), number(r.PerEntry, 2),
		})
	}
	p.table([]string{"models", "high", "medium", "low", "total", "messages per entry"}, cells)
	p.text("Worked out: 360/0/0 under Level. The root never has to give the token away.")
	return nil
}
