package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"padme/cmd/pubsub-node/internal/realrun"
	"padme/qosmutex/classic"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// What was measured is beside what was predicted, with what is not as in the workload.
func TestVerificationIsTold(t *testing.T) {
	f := &planFlags{spec: newSimSpec(), verify: time.Minute}
	f.spec.duration = duration(30 * 60 * protocol.Second)
	same := 2.5
	v := &verification{
		Verification: &plan.Verification{Inside: 1, Runs: 399, AsFar: 0.03, Rows: []plan.Row{
			{Figure: "wait.p99[1]", Low: 1, Median: 2, High: 3, Same: &same, Measured: 2.25, Inside: true},
			{Figure: "entries", Low: 10, Median: 20, High: 30, Measured: 31},
		}},
		Delays: delays{Messages: 500, P50: 0.0004, P99: 0.002}, Lost: 2, participants: 5,
	}
	var b bytes.Buffer
	if err := f.writeVerification(&b, v, &plan.Option{Name: "padme:LFFF, fan-out 8"}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"verified padme:LFFF, fan-out 8, run over a broker and with a process for each of 5 participants, for 1m0s, where the workload has 30m0s: the figures below are of runs of 1m0s, and not those above",
		"messages took 0.4ms longer than in the workload at the median, and at most 2ms longer in 99 of 100 cases, of 500 that were sent meanwhile;",
		"2 holds were lost",
		"wait.p99[1] 2s 1s to 3s 2.5s 2.25s inside", "entries 20 10 to 30 - 31 outside",
		"verdict 1 of 2 figures are inside, and in 3 % of",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	f.spec.duration, v.Lost = duration(60*protocol.Second), 0
	b.Reset()
	if err := f.writeVerification(&b, v, &plan.Option{}); err != nil || strings.Contains(b.String(), "where the workload") || strings.Contains(b.String(), "lost") {
		t.Errorf("%v, %s", err, b.String())
	}
	if err := v.misfit(); exitCode(err) != exitFailure || !strings.Contains(err.Error(), "only 3.0 %") {
		t.Error(err)
	}
}

// Simulated messages are as late as those of the same second of the real run.
func TestLateMessagesComeTogether(t *testing.T) {
	const ms = protocol.Millisecond
	sc := sim.Scenario{
		Timing: protocol.LAN(), Start: protocol.Second, Duration: 3 * protocol.Second, Participants: sim.Tree(2, 2, false),
		Settings: protocol.Settings{Resources: []string{"crane"}}, Network: sim.Network{Latency: sim.Constant(10 * ms)},
	}
	for second := range protocol.Time(3) {
		sc.Arrivals = append(sc.Arrivals, sim.Arrival{At: second*protocol.Second + 100*ms, Node: "B", Request: sim.Request{Resource: "crane", Hold: ms}})
	}
	var waits []protocol.Duration
	var asked protocol.Time
	sc.Trace = func(r *sim.Record) {
		switch r.Event {
		case sim.Requested:
			asked = r.At
		case sim.Entered:
			waits = append(waits, r.At-asked)
		}
	}
	run, err := sim.New(classic.Central, sc)
	if err != nil {
		t.Fatal(err)
	}
	hinder(run, &sc, []realrun.Delay{{At: 300 * ms, Took: 50 * ms}, {At: 900 * ms, Took: 50 * ms}, {At: 2500 * ms, Took: 0}})
	if _, err := run.Run(); err != nil {
		t.Fatal(err)
	}
	if len(waits) != 3 || waits[0] != 120*ms || waits[1] < 20*ms || waits[1] > 120*ms || waits[2] != 20*ms {
		t.Errorf("waited %v", waits)
	}
}
