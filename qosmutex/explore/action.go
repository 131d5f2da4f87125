package explore

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what can happen in a world.
type Kind uint8

// Kinds of actions. The first three, Heal, Revive, Appoint and Land are not budgeted.
const (
	Deliver   Kind = iota // the oldest message from one to another arrives
	Ask                   // an application asks for the resource
	Leave                 // the application that is inside leaves
	Withdraw              // an application no longer waits
	Tick                  // a heartbeat passes, and whoever is due wakes
	Crash                 // a participant dies; what was sent to it is lost
	Restart               // a participant that died starts again
	Cut                   // a connection is lost; so is what is sent to it, and by it, until
	Heal                  // it is there again
	Pause                 // a participant stops; what is sent to it waits, until
	Revive                // it runs again
	Lose                  // the oldest message from one to another is lost
	Duplicate             // it arrives once more, after all that were sent since
	Depart                // a participant leaves for good
	Outrank               // a participant becomes the most important of all
	Suspect               // one is told that another has ended, which may be false
	Appoint               // whom the record names hears of it, from the oracle
	Unheard               // the next request of a participant to the register has no answer
	Late                  // its next write is given up, and made when it lands, if it does
	Land                  // the oldest of those writes reaches the register
	Forget                // the register forgets renewals, and makes no write for a lease
	kindEnd
)

var kindNames = [kindEnd]string{
	"deliver", "ask", "leave", "withdraw", "tick", "crash", "restart", "cut", "heal", "pause", "revive", "lose",
	"duplicate", "depart", "outrank", "suspect", "appoint", "unheard", "late", "land", "forget",
}

func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return "kind?"
}

// ofNobody reports whether it names no participant.
func (k Kind) ofNobody() bool { return k == Tick || k == Land || k == Forget }

// ofTwo reports whether it names two participants.
func (k Kind) ofTwo() bool { return k.onChannel() || k == Suspect }

// Action is one thing that happens: to participant A, to the messages from A to B,
// or to A in what it thinks of B.
type Action struct {
	Kind Kind
	A, B uint8
}

// isFault reports whether something goes wrong with it.
func (k Kind) isFault() bool {
	return k >= Crash && k != Heal && k != Revive && k != Appoint && k != Land
}

func (k Kind) onChannel() bool { return k == Deliver || k == Lose || k == Duplicate }

func (a Action) String() string {
	switch {
	case a.Kind.ofNobody():
		return a.Kind.String()
	case a.Kind.ofTwo():
		return fmt.Sprintf("%v %s %s", a.Kind, letter(int(a.A)), letter(int(a.B)))
	}
	return fmt.Sprintf("%v %s", a.Kind, letter(int(a.A)))
}

func parseAction(line string) (a Action, err error) {
	f := strings.Fields(line)
	k := slices.Index(kindNames[:], f[0])
	if k < 0 {
		return a, fmt.Errorf("explore: unknown action %q", line)
	}
	a.Kind = Kind(k)
	want := 2
	switch {
	case a.Kind.ofNobody():
		want = 1
	case a.Kind.ofTwo():
		want = 3
	}
	if len(f) != want {
		return a, fmt.Errorf("explore: %q needs %d words", line, want)
	}
	for i, to := range []*uint8{&a.A, &a.B} {
		if i+1 < len(f) {
			*to = f[i+1][0] - 'A'
		}
	}
	return a, nil
}
