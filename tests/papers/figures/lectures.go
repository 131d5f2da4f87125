package main

import (
	"fmt"

	"padme/qosmutex/classic"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim/chart"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

var lecturesTopic = topic{
	name: "lectures", title: "Lectures: the classical algorithms compared",
	about: "Messages per entry, response time, synchronization delay and what a crash does, measured, beside the lectures' formulas.",
	build: buildLectures,
}

// lectureN is how many take part: nine make a square of voting sets.
const lectureN = 9

// lecturer is an algorithm and what the lectures say of it; empty where they do not.
type lecturer struct {
	algorithm                           protocol.Algorithm
	messages, response, delay, liveness string
	formula                             float64 // messages without contention, for nine
	row                                 *bench.LectureRow
}

func lecturers() []lecturer {
	n := float64(lectureN)
	return []lecturer{
		{algorithm: classic.Central, messages: "3", formula: 3, response: "1 RTT", delay: "2 t_m", liveness: "bad: a crash of the coordinator"},
		{algorithm: classic.CentralFIFO, messages: "3", formula: 3, response: "1 RTT", delay: "2 t_m", liveness: "bad: a crash of the coordinator"},
		{algorithm: classic.TokenRing, messages: "N", formula: n, response: "≤ N/2 RTT", delay: "up to N-1 t_m", liveness: "horrible: any failure"},
		{algorithm: classic.Lamport, messages: "3(N-1)", formula: 3 * (n - 1), response: "1 RTT", delay: "", liveness: "horrible: any failure"},
		{algorithm: classic.RicartAgrawala, messages: "2(N-1)", formula: 2 * (n - 1), response: "1 RTT", delay: "t_m", liveness: "horrible: any failure"},
		{algorithm: classic.Maekawa, messages: "3√N", formula: 3 * 3, response: "1 RTT", delay: "2 t_m", liveness: ""},
		{algorithm: classic.Voting, messages: "≥ 2(N-1)", formula: 2 * (n - 1), response: "1 RTT", delay: "", liveness: "great: up to N/2-1 failures"},
		{algorithm: classic.SuzukiKasami},
		{algorithm: classic.NaimiTrehel},
		{algorithm: sla.Raymond},
	}
}

func buildLectures(p *page) error {
	all := lecturers()
	for i := range all {
		var err error
		if all[i].row, err = bench.Lecture(all[i].algorithm, lectureN); err != nil {
			return err
		}
	}
	p.text(fmt.Sprintf("**Assumed.** N = %d. Every message takes t_m, a critical section 40 t_m, so that all else settles meanwhile. *Request policies:* **in turn**, one after another asks, in a random order, when everything of the one before has settled; **alone**, one asks again at the moment of leaving and nobody else ever does; **saturated**, everybody asks again at the moment of leaving. Participant 1 is the server, the first holder and the root; Raymond's tree is the complete binary one. 1 RTT is 2 t_m.", lectureN))
	if err := lectureMessages(p, all); err != nil {
		return err
	}
	lectureTimes(p, all)
	if err := lectureCrashes(p, all); err != nil {
		return err
	}
	if err := lectureSurvival(p); err != nil {
		return err
	}
	naive, err := bench.Lecture(classic.MaekawaNaive, lectureN)
	if err != nil {
		return err
	}
	p.text(fmt.Sprintf(`## What the lectures say, and where it differs

- A central server needs 3 messages, and none when the server itself enters: in turn, that is 3(N-1)/N on average.
- A ring's N messages are those of one who asks alone. When all ask, it is one hop per entry; when nobody does, the token goes on (here it rests for t_m at each once a round was idle), so that messages per entry mean nothing in turn. A request may then find the token at rest: up to twice the lecture's time.
- Maekawa's 3√N counts sets of √N; row and column make sets of K = 2√N-1, of which one is the participant itself: 3(K-1) = %d. The cure for its deadlocks costs more when requests collide, at most as much again. Without it, saturated, %d of %d requests are served: deadlock.
- Voting's 2(N-1) leaves out the return of the votes: 3(N-1). Rounds that nobody wins come on top, and so does the back-off: its delay is chance.
- The lecture's column of synchronization delays answers "no one else has it; how long till you get it?", which is the response time here.
- The crash of whoever is inside stops every algorithm here: none of them knows a timeout. PADME does ([lock protocol](../lock-protocol.md)).`,
		3*(2*3-2), naive.Entries, naive.Wanted))
	return nil
}

func lectureMessages(p *page, all []lecturer) error {
	c := &chart.Bars{
		Title: fmt.Sprintf("Messages per entry, N = %d", lectureN), Y: "messages",
		Series: []chart.Series{{Name: "without contention"}, {Name: "saturated"}, {Name: "lectures"}},
	}
	var cells [][]string
	for _, l := range all {
		quiet, inTurn := l.row.InTurn, number(l.row.InTurn, 2)
		if l.algorithm.Name == classic.TokenRing.Name {
			quiet, inTurn = l.row.Alone, "the token circulates"
		}
		formula := ""
		if l.messages != "" {
			formula = fmt.Sprintf("%s = %s", l.messages, number(l.formula, 0))
			c.Categories = append(c.Categories, l.algorithm.Name)
			for i, v := range []float64{quiet, l.row.Saturated, l.formula} {
				c.Series[i].Values = append(c.Series[i].Values, rounded(v))
			}
		}
		cells = append(cells, []string{l.algorithm.Name, formula, inTurn, number(l.row.Alone, 2), number(l.row.Saturated, 2)})
	}
	p.text("## Messages per entry")
	if err := p.chart("lectures-messages", "messages per entry", c); err != nil {
		return err
	}
	p.table([]string{"algorithm", "lectures", "in turn", "alone", "saturated"}, cells)
	p.text("Counted are all messages from the first request until everything has settled, 40 entries for each participant that asks; what it takes to fetch the token for the first time is among them.")
	return nil
}

func lectureTimes(p *page, all []lecturer) {
	p.text("## Response time and synchronization delay\n\nResponse time: of a request while nobody else is inside or waits (in turn). Synchronization delay: from a leave to the next entry (saturated). In t_m: the mean, and in brackets the least and the most.")
	var cells [][]string
	for _, l := range all {
		cells = append(cells, []string{
			l.algorithm.Name, l.response, fmt.Sprintf("%s (≤ %s)", number(l.row.Response, 2), number(l.row.ResponseMost, 0)),
			l.delay, fmt.Sprintf("%s (%s–%s)", number(l.row.Delay, 2), number(l.row.DelayLeast, 0), number(l.row.DelayMost, 0)),
		})
	}
	p.table([]string{"algorithm", "lectures", "response time", "lectures", "synchronization delay"}, cells)
}

func lectureCrashes(p *page, all []lecturer) error {
	p.text("## What a crash does\n\nEverybody but the first two victims asks again and again, with a pause of 100 t_m on average; then one crashes, and for good. How many of the others still enter, in the long run: after *participant 1*, which never asks, but is the server or the root; after *participant 2*, a bystander that never asks, inside the tree; after whoever is *inside*.")
	var cells [][]string
	for _, l := range all {
		row := []string{l.algorithm.Name, l.liveness}
		for _, v := range []bench.Victim{bench.First, bench.Bystander, bench.Holder} {
			asked, entered, err := bench.Crash(l.algorithm, lectureN, v)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%d of %d", entered, asked))
		}
		cells = append(cells, row)
	}
	p.table([]string{"algorithm", "lectures", "participant 1", "participant 2", "inside"}, cells)
	return nil
}

// lectureSurvival is how many coordinators voting survives.
func lectureSurvival(p *page) error {
	p.text("## How many coordinators voting survives\n\nCoordinators that never ask themselves crash at one instant. How many of the others still enter, in the long run.")
	var cells [][]string
	for n := 3; n <= lectureN; n++ {
		k := (n+1)/2 - 1
		row := []string{fmt.Sprint(n), fmt.Sprint(k)}
		for _, crashed := range []int{k, k + 1} {
			asked, entered, err := bench.CrashCoordinators(classic.Voting, n, crashed)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%d of %d", entered, asked))
		}
		cells = append(cells, row)
	}
	p.table([]string{"N", "⌈N/2⌉-1", "still enter after so many crashes", "after one more"}, cells)
	return nil
}
