package caspaxos

import (
	"errors"
	"fmt"
	"testing"

	"padme/qosmutex/register"
)

// voterA is one that has decided on three voters, and asks them for a key.
func voterA(t *testing.T) (a *Machine, asked Ballot) {
	t.Helper()
	config := &Config{Domain: register.Domain{1}, Number: 1, Voters: []Voter{{"A", 1}, {"B", 2}, {"C", 3}}}
	file := (&Machine{opts: Options{Self: "A"}, instance: 1, listed: config.IDs(), config: config}).Records()
	var out Output
	a, err := New(Options{Self: "A", Voters: config.IDs(), Boot: 1 << 32, Resend: 1, Backoff: 1}, file, 0, &out)
	if err != nil {
		t.Fatal(err)
	}
	write := register.Write{Key: "crane", Value: []byte("first"), Nonce: 9}
	if err := a.Step(0, &Input{Kind: Ask, Seq: 1, Writes: []register.Write{write}}, &out); err != nil {
		t.Fatal(err)
	}
	return a, out.Messages[0].Ballot
}

// TestAnotherFileDoesNotVote: a majority of the files that were enrolled decides. The
// name of a voter whose file was lost is not enough.
func TestAnotherFileDoesNotVote(t *testing.T) {
	a, asked := voterA(t)
	promise := Message{
		Kind: KindPromise, From: "B", To: "A", Domain: a.config.Domain, Config: 1, Run: Run{Instance: 22, Boot: 1 << 32},
		Ballot: asked, Slots: make([]Slot, 1),
	}
	var out Output
	if err := a.Step(0, &Input{Kind: Receive, Message: &promise}, &out); !errors.Is(err, ErrDropped) || len(out.Messages) > 0 {
		t.Errorf("the promise of another file: %v, and then %v", err, out.Messages)
	}
	promise.Run.Instance = 2
	if err := a.Step(0, &Input{Kind: Receive, Message: &promise}, &out); err != nil || len(out.Messages) == 0 {
		t.Errorf("the promise of the file that was enrolled: %v, and then %v", err, out.Messages)
	}
}

// TestManyThatAskBlockNoReplacement: whoever has asked to be a voter, and does not any more, makes
// room for others. While many go on, one that an operator has named keeps its place.
func TestManyThatAskBlockNoReplacement(t *testing.T) {
	a, _ := voterA(t)
	now := Time(0)
	enroll := func(from string) {
		now++
		msg := Message{Kind: KindEnroll, From: from, To: "A", Run: Run{Instance: 7, Boot: 1 << 32}, Voters: []string{"A", "B", from}}
		var out Output
		if err := a.Step(now, &Input{Kind: Receive, Message: &msg}, &out); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	crowd := func() {
		for i := range 2 * MaxEnrolled {
			enroll(fmt.Sprint("m", i))
		}
	}
	replace := func() (err error) {
		now++
		var out Output
		_ = a.Step(now, &Input{Kind: Replace, Seq: uint64(now), Old: "C", New: "D", Until: now + 1}, &out)
		for _, answer := range out.Answers {
			err = answer.Err
		}
		return err
	}
	crowd()
	enroll("D")
	if a.Status(now).Asking["D"] == 0 || len(a.Status(now).Asking) > MaxEnrolled {
		t.Errorf("asking: %v", a.Status(now).Asking)
	}
	crowd()
	if err := replace(); !errors.Is(err, register.ErrInvalid) {
		t.Errorf("one that is forgotten: %v", err)
	}
	enroll("D")
	crowd()
	if err := replace(); err != nil {
		t.Errorf("one that was named: %v", err)
	}
}

// TestBallotsFarAheadAreRefused: a round at the end of all numbers would be the last.
func TestBallotsFarAheadAreRefused(t *testing.T) {
	a, _ := voterA(t)
	for what, msg := range map[string]*Message{
		"Prepare": {Kind: KindPrepare, Ballot: Ballot{1, 1 << 63, 1}, Keys: []string{"crane"}},
		"Refused": {Kind: KindRefused, Round: 1 << 63},
	} {
		msg.From, msg.To, msg.Domain, msg.Config, msg.Run = "B", "A", a.config.Domain, 1, Run{Instance: 2, Boot: 1 << 32}
		var out Output
		if err := a.Step(0, &Input{Kind: Receive, Message: msg}, &out); !errors.Is(err, ErrDropped) {
			t.Errorf("%s: error %v, want ErrDropped", what, err)
		}
		if a.seen >= 1<<63 {
			t.Errorf("%s: round %d counts as seen", what, a.seen)
		}
	}
}

// TestStrangersDecideNothing: a participant that is no voter, or a voter's file of before,
// says whatever there is to say, with all numbers at their ends. It counts for nothing, and
// what was decided is as before.
func TestStrangersDecideNothing(t *testing.T) {
	taken := register.Domain{1}
	forged := &Config{Domain: taken, Number: 1 << 31, Voters: []Voter{{"mallory", 66}}, Prev: []Voter{{"mallory", 66}}}
	next := &Config{Domain: taken, Number: 2, Voters: []Voter{{"A", 1}, {"B", 2}, {"mallory", 66}}, Prev: []Voter{{"A", 1}, {"B", 2}, {"C", 3}}}
	voting := &Config{Domain: taken, Number: 1, Voters: []Voter{{"A", 1}, {"B", 2}, {"C", 3}}}
	old := &Config{Domain: taken, Number: 0, Voters: []Voter{{"mallory", 66}}}
	most := Ballot{1, 1<<32 - 1, 1}
	slot := Slot{Key: "crane", Accepted: most, State: State{Value: []byte("forged")}}
	for _, from := range []struct {
		name     string
		instance uint64
	}{{"mallory", 66}, {"mallory", 2}, {"B", 22}} {
		for _, msg := range []Message{
			{Kind: KindCurrent, Next: forged},
			{Kind: KindCurrent, Next: next},
			{Kind: KindCurrent, Next: old},
			{Kind: KindCurrent},
			{Kind: KindFetch, Next: forged},
			{Kind: KindFetch, Next: next},
			{Kind: KindFetch, Next: voting},
			{Kind: KindFetch},
			{Kind: KindPage, Target: 2, Slots: []Slot{slot}, Installed: true},
			{Kind: KindPrepare, Ballot: most, Keys: []string{"crane"}},
			{Kind: KindAccept, Ballot: most, Slots: []Slot{slot}},
			{Kind: KindPromise, Ballot: most, Slots: []Slot{slot}},
			{Kind: KindAccepted, Ballot: most, Slots: []Slot{slot}},
			{Kind: KindRefused, Ballot: most, Round: 1<<32 - 1},
			{Kind: KindValues, Seq: 1, Slots: []Slot{slot}},
			{Kind: KindEnroll, Voters: []string{"A", "B", "mallory"}},
			{Kind: KindReject, Reason: ReasonRestored, About: 1 << 32},
			{Kind: KindReject, Reason: ReasonWiped, About: 1 << 32},
			{Kind: KindReject, Reason: ReasonVoters, About: 1 << 32},
			{Kind: KindHello},
		} {
			if from.name == "B" && (msg.Kind == KindCurrent || msg.Kind == KindFetch || msg.Kind == KindReject) {
				continue // what the owner of a voter's name says counts
			}
			a, asked := voterA(t)
			msg.From, msg.To, msg.Domain, msg.Config, msg.Run = from.name, "A", taken, 1, Run{Instance: from.instance, Boot: 1 << 32}
			var out Output
			_ = a.Step(0, &Input{Kind: Receive, Message: &msg}, &out)
			if s := a.Status(0); s.Phase != Voting || s.Config.Number != 1 || a.seen > asked.Round || len(out.Persist) > 0 || len(out.Answers) > 0 {
				t.Errorf("%v of %s with file %d: %+v, round %d, %d records and %d answers", msg.Kind, from.name, from.instance, s, a.seen, len(out.Persist), len(out.Answers))
			}
			for _, reply := range out.Messages {
				if reply.Kind == KindPage || reply.Kind == KindPromise || reply.Kind == KindAccepted {
					t.Errorf("%v of %s with file %d is answered with %v", msg.Kind, from.name, from.instance, reply.Kind)
				}
			}
			promise := Message{ // and the vote goes on
				Kind: KindPromise, From: "B", To: "A", Domain: taken, Config: 1, Run: Run{Instance: 2, Boot: 1 << 32}, Ballot: asked, Slots: make([]Slot, 1),
			}
			if err := a.Step(0, &Input{Kind: Receive, Message: &promise}, &out); err != nil || len(out.Messages) == 0 {
				t.Errorf("after %v of %s with file %d: %v, and then %v", msg.Kind, from.name, from.instance, err, out.Messages)
			}
		}
	}
}
