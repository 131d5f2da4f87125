package classic

import (
	"errors"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// Maekawa is Maekawa's algorithm with the cure for its deadlocks. A participant asks
// its voting set, K participants with itself, and enters when all have voted for it;
// each votes for one request at a time. Any two sets have a voter in common.
//
// The cure is Maekawa's, as corrected by Sanders: a voter that gets a request which
// is earlier than the one it voted for, in the order of (clock, participant), asks
// with Inquire for its vote back. Who has been told by some voter that it must wait
// (Failed) gives it with Yield. Every waiting request that is not the next at its
// voter has been told Failed, also if it was the next and another came before it.
// The earliest request of all then gets every vote: each voter that is not free for
// it has sent Inquire; the one asked is inside, or has a Failed or will get one, for
// of those that wait for each other in a circle, the latest has.
//
// Messages: Request, Reply and Release to and from K−1 voters, 3(K−1) per entry, K
// about 2√N−1. When requests collide, each at each voter may cost three more: a Failed
// for itself or the one it overtakes, or Inquire, Yield and the second Reply for the
// one that gave way; so at most 6(K−1). Delay: Release to a common voter and Reply,
// 2 t_m; 1 if the voter is one of the two. A crash stops those who need its vote.
var Maekawa = protocol.Algorithm{
	Name: "maekawa", Source: "lecture on Maekawa's algorithm (Maekawa 1985, with Sanders 1987)",
	Messages: "3(K-1) to 6(K-1), K = 2√N-1", Delay: "2", Assumes: "channels in order",
	Crash: "of anybody: those with it in their voting set wait for ever", Static: true,
	New: machine(func(e *static.Env) static.Core { return newMaekawa(e, true) }),
}

// MaekawaNaive is Maekawa's algorithm exactly as the lecture gives it, with a voter's
// queue in order of arrival and no way to give a vote back. It excludes, but when
// several ask at once they may wait for each other in a circle, for ever.
var MaekawaNaive = protocol.Algorithm{
	Name: "maekawa-naive", Source: "lecture on Maekawa's algorithm, actions",
	Messages: "3(K-1), K = 2√N-1", Delay: "2", Assumes: "channels in order; that requests do not collide, else it deadlocks",
	Crash: Maekawa.Crash, Static: true,
	New: machine(func(e *static.Env) static.Core { return newMaekawa(e, false) }),
}

// ballot is the state of the own request at one voter.
type ballot uint8

const (
	ballotAsked    ballot = iota
	ballotFailed          // must wait there, or gave the vote back
	ballotVoted           //
	ballotInquired        // voted, and would like the vote back
)

var errBallot = errors.New("a step that this ballot cannot take")

// maekawa is the one who asks; voter is the other half of a participant.
type maekawa struct {
	voter
	set     []int
	ballots []ballot // by place in set
	own     turn     // the latest request
	waits   bool
}

func newMaekawa(env *static.Env, cure bool) *maekawa {
	c := &maekawa{set: votingSet(env.N, env.Self)}
	c.ballots = make([]ballot, len(c.set))
	c.voter = voter{env: env, cure: cure, fence: fence(env.Floor), newest: make([]uint64, env.N)}
	return c
}

// Ask implements [static.Core].
func (c *maekawa) Ask(r *static.Request) {
	c.own, c.waits = turn{r.ID.Clock, c.env.Self}, true
	clear(c.ballots)
	c.poll(protocol.KindRequest)
}

// Leave implements [static.Core].
func (c *maekawa) Leave() { c.poll(protocol.KindRelease) }

func (c *maekawa) poll(kind protocol.Kind) {
	for _, i := range c.set {
		c.post(i, kind, c.own)
	}
	c.settle()
}

// Receive implements [static.Core].
func (c *maekawa) Receive(from int, m *protocol.Message) error {
	if !slices.Contains(c.set, from) {
		return errSender
	}
	who := c.env.Self
	switch m.Kind {
	case protocol.KindRequest, protocol.KindRelease, protocol.KindYield:
		who = from
	}
	clock, err := clockOf(c.env, who, m)
	if err != nil {
		return err
	}
	if err := checkFence(m); err != nil {
		return err
	}
	before := c.fence
	c.fence.learn(m) // first: a Release frees the vote, which goes on with its fence
	if err := c.handle(from, m.Kind, clock); err != nil {
		c.fence = before
		return err
	}
	c.settle()
	return nil
}

// settle handles what the participant had to tell itself, in order, and enters if
// that, or the message before it, brought the last vote. Of an entry A before this
// one, a voter in both sets could vote for us only when it had A's Release, with A's
// fence.
func (c *maekawa) settle() {
	for len(c.local) > 0 {
		n := c.local[0]
		c.local = slices.Delete(c.local, 0, 1)
		if err := c.handle(c.env.Self, n.kind, n.clock); err != nil {
			c.broken = err
		}
	}
	waitsFor := func(b ballot) bool { return b < ballotVoted }
	if c.waits && !slices.ContainsFunc(c.ballots, waitsFor) {
		c.waits = false
		c.env.Enter(c.fence.next())
	}
}

// handle takes a message from another participant or the own one.
func (c *maekawa) handle(from int, kind protocol.Kind, clock uint64) error {
	t := turn{clock, from}
	switch {
	case kind == protocol.KindRequest:
		return c.request(t)
	case kind == protocol.KindRelease:
		return c.release(t)
	case kind == protocol.KindReply:
		return c.voted(from, clock)
	case !c.cure:
		return errKind
	case kind == protocol.KindYield:
		return c.yielded(t)
	case kind == protocol.KindFailed:
		return c.failed(from, clock)
	case kind == protocol.KindInquire:
		return c.inquire(from, clock)
	}
	return errKind
}

// at is the ballot of a voter of the set.
func (c *maekawa) at(from int) *ballot {
	i, _ := slices.BinarySearch(c.set, from)
	return &c.ballots[i]
}

func (c *maekawa) voted(from int, clock uint64) error {
	b := c.at(from)
	switch {
	case clock != c.own.clock || !c.waits:
		return errNobody
	case *b >= ballotVoted:
		return errTwice
	}
	*b = ballotVoted
	return nil
}

func (c *maekawa) failed(from int, clock uint64) error {
	b := c.at(from)
	switch {
	case clock != c.own.clock || !c.waits:
		return errNobody
	case *b != ballotAsked:
		return errBallot
	}
	*b = ballotFailed
	for i := range c.ballots {
		if c.ballots[i] == ballotInquired {
			c.yield(c.set[i])
		}
	}
	return nil
}

// inquire gives the vote back if there is no hope to enter soon. An Inquire that
// finds us inside, or gone, has crossed the last vote or our Release; no ballot is
// Failed then.
func (c *maekawa) inquire(from int, clock uint64) error {
	b := c.at(from)
	switch {
	case clock > c.own.clock:
		return errNobody
	case clock < c.own.clock:
		return nil
	case *b != ballotVoted:
		return errBallot
	}
	*b = ballotInquired
	if slices.Contains(c.ballots, ballotFailed) {
		c.yield(from)
	}
	return nil
}

func (c *maekawa) yield(to int) {
	*c.at(to) = ballotFailed
	c.post(to, protocol.KindYield, c.own)
}

var (
	errNotTold = errors.New("a waiting request does not know that it must wait")
	errKept    = errors.New("a vote that was asked for is kept without hope")
)

// CheckInvariants reports a message to oneself that did not fit, and with the cure a
// state from which a deadlock may grow.
func (c *maekawa) CheckInvariants() error {
	for i, w := range c.queue {
		if next := i == 0 && w.before(c.vote) && c.inquired; c.cure && !w.failed && !next {
			return errNotTold
		}
	}
	if slices.Contains(c.ballots, ballotFailed) && slices.Contains(c.ballots, ballotInquired) {
		return errKept
	}
	return c.broken
}
