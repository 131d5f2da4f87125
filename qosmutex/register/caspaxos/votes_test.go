package caspaxos

import (
	"errors"
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
