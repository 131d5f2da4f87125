package caspaxos

import (
	"testing"

	"padme/qosmutex/register"
)

// Voters of a new configuration copy what sealed ones have accepted. Two may copy a
// write that only one had accepted, and the third a later one, which only another had
// accepted: then neither is chosen before one of them is written again. (It was: a read
// told of the first, and the next write replaced it by the second.)
func TestCopiedStatesAreNotChosen(t *testing.T) {
	config := &Config{Domain: register.Domain{1}, Number: 2, Voters: []Voter{{"A", 1}, {"B", 2}, {"D", 4}}}
	first := Stamp{2, 20}
	copied := Slot{"crane", Ballot{1, 7, 0}, State{Value: []byte("first"), Stamp: first, Firm: first}}
	start := func(id string, instance uint64) *Machine {
		m := &Machine{opts: Options{Self: id}, instance: instance, listed: config.IDs(), config: config}
		m.slots = map[string]*slot{"crane": {Slot: copied}}
		var out Output
		m, err := New(Options{Self: id, Voters: config.IDs(), Boot: 1 << 32, Resend: 1, Backoff: 1}, m.Records(), 0, &out)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b := start("A", 1), start("B", 2)
	var out Output
	if err := a.Step(0, &Input{Kind: Ask, Seq: 1, Keys: []string{"crane"}}, &out); err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for now := Time(0); len(out.Answers) == 0 && now < 10; { // D answers nothing
		if len(out.Messages) == 0 {
			now++
			if err := a.Step(now, &Input{}, &out); err != nil {
				t.Fatal(err)
			}
			continue
		}
		msg := out.Messages[0]
		out.Messages = out.Messages[1:]
		to := map[string]*Machine{"A": a, "B": b}[msg.To]
		if to == nil {
			continue
		}
		kinds = append(kinds, msg.Kind)
		if err := to.Step(now, &Input{Kind: Receive, Message: &msg}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.Answers) != 1 || string(out.Answers[0].Entries[0].Value) != "first" {
		t.Fatalf("answers %+v", out.Answers)
	}
	if got := b.slots["crane"].Accepted; got.Config != 2 {
		t.Errorf("told of a state that is accepted under %v, after %v", got, kinds)
	}
}
