package classic

import (
	"math"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// Voting is the lecture's voting protocol. Every participant is a coordinator, too.
// Who wants to enter asks all coordinators, itself included; each answers at once,
// with its vote if nobody else has it. With a majority of m = ⌊N/2⌋+1 votes it
// enters. If it cannot get one, or answers stay out, it returns its votes and tries
// again after a random time, which doubles with every round up to 2^10 and grows with
// the estimated place in the race: one more than the candidates that are known, from
// the answers, to have more votes.
//
// Messages: Request, Reply and Release to and from each of the others, 3(N−1) per
// entry without contention, as many again for each round that is lost (less the
// Release to those who refused). The lecture's 2(N−1) leaves out the return of the
// votes. Delay: 2 t_m and what is left of a back-off. There is no order and no bound
// on the wait, only chance. Crashes of up to ⌈N/2⌉−1 participants stop nobody, where
// the votes that a crashed one had from others, and does not return, count as crashed.
var Voting = protocol.Algorithm{
	Name: "voting", Source: "lecture on mutual exclusion, a voting-based protocol",
	Messages: "3(N-1) per round (2(N-1) in the lecture, which leaves out the return of votes)", Delay: "2 and the back-off",
	Assumes: "channels in order; coordinators that forget nothing",
	Crash:   "of fewer than half: none, if they have no votes of others; of one inside: everybody waits for ever", Static: true,
	New: machine(func(e *static.Env) static.Core { return newVoting(e, 0) }),
}

// Bounds of the back-off. It is counted in round trips, of up to maxTrip each, and
// with 65536 places in the race it stays within what Time can tell.
const (
	maxDoublings = 10
	maxTrip      = 60 * protocol.Second
)

// answer is what a coordinator said in this round.
type answer uint8

const (
	answerOut answer = iota // not yet
	answerYes
	answerNo
)

type phase uint8

const (
	phaseIdle   phase = iota
	phaseAsking       // a round is on
	phasePause        // between two rounds
	phaseInside
)

// voting is a candidate, and with its coordinator a participant.
type voting struct {
	env     *static.Env
	office  coordinator
	phase   phase
	round   uint64 // the clock that names it; also of the last round while idle
	answers []answer
	yes, no int
	polls   []int         // of each participant, the votes known to be for it in this round
	lost    int           // rounds since the application asked
	asked   protocol.Time // when the round began
	trip    protocol.Duration
	timer   protocol.Time // end of the round, or of the pause
	path    [1]protocol.Node
}

// newVoting makes a participant whose coordinator forgets its votes after mean on
// average, or never if mean is 0.
func newVoting(env *static.Env, mean protocol.Duration) static.Core {
	c := &voting{env: env, answers: make([]answer, env.N), polls: make([]int, env.N), timer: protocol.Never}
	c.trip = min(max(2*env.Config.Timing.Hop, minRest), maxTrip)
	c.office = newCoordinator(env, mean)
	return c
}

// Ask implements [static.Core].
func (c *voting) Ask(r *static.Request) {
	c.lost = 0
	c.begin(r.ID.Clock)
	c.schedule()
}

// begin opens a round under a clock above that of the last one, so that answers to
// that are not taken for votes.
func (c *voting) begin(round uint64) {
	c.phase, c.round, c.asked = phaseAsking, round, c.env.Now()
	c.yes, c.no = 0, 0
	clear(c.answers)
	clear(c.polls)
	c.timer = c.asked + 2*c.trip<<c.doublings()
	own := turn{round, c.env.Self}
	for i := range c.env.N {
		if i != c.env.Self {
			c.env.Send(i, protocol.KindRequest).ID = name(c.env, own)
		}
	}
	favored, _ := c.office.request(own)
	c.count(c.env.Self, favored.who)
	c.decide()
}

func (c *voting) doublings() int { return min(c.lost, maxDoublings) }

func (c *voting) count(from, favored int) {
	c.polls[favored]++
	if favored == c.env.Self {
		c.answers[from] = answerYes
		c.yes++
		return
	}
	c.answers[from] = answerNo
	c.no++
}

// decide ends a round that is decided. Of an entry A before this one, a coordinator
// in both majorities could vote for us only when it had A's Release, with A's fence.
func (c *voting) decide() {
	majority := c.env.N/2 + 1
	switch {
	case c.phase != phaseAsking:
	case c.yes >= majority:
		c.phase, c.timer = phaseInside, protocol.Never
		c.env.Enter(c.office.fence.next())
	case c.no > c.env.N-majority:
		c.lose()
	}
}

// lose returns the votes and waits for the next round.
func (c *voting) lose() {
	c.giveBack()
	place := 1
	for i, n := range c.polls {
		if i != c.env.Self && n > c.polls[c.env.Self] {
			place++
		}
	}
	window := c.trip << c.doublings() * protocol.Duration(place)
	c.phase, c.lost = phasePause, c.lost+1
	c.timer = c.env.Now() + 1 + protocol.Duration(c.env.Random()%uint64(window))
}

// giveBack ends the round at all coordinators that voted for us, or may have: their
// answer is still out.
func (c *voting) giveBack() {
	own := turn{c.round, c.env.Self}
	for i, a := range c.answers {
		switch {
		case a == answerNo:
		case i == c.env.Self:
			_ = c.office.release(own)
		default:
			m := c.env.Send(i, protocol.KindRelease)
			m.ID = name(c.env, own)
			c.office.fence.put(m)
		}
	}
}

// Leave implements [static.Core].
func (c *voting) Leave() {
	c.phase = phaseIdle
	c.giveBack()
	c.schedule()
}

// Cancel implements [static.Canceller].
func (c *voting) Cancel() {
	if c.phase == phaseAsking {
		c.giveBack()
	}
	c.phase, c.timer = phaseIdle, protocol.Never
	c.schedule()
}

// Tick implements [static.Ticker].
func (c *voting) Tick() {
	now := c.env.Now()
	c.office.tick(now)
	if c.timer <= now {
		c.timer = protocol.Never
		switch c.phase {
		case phaseAsking:
			c.lose()
		case phasePause:
			c.begin(c.env.Clock())
		}
	}
	c.schedule()
}

func (c *voting) schedule() { c.env.WakeAt(min(c.timer, c.office.resetAt)) }

// Receive implements [static.Core].
func (c *voting) Receive(from int, m *protocol.Message) error {
	if err := checkFence(m); err != nil {
		return err
	}
	var err error
	switch m.Kind {
	case protocol.KindRequest, protocol.KindRelease:
		err = c.serve(from, m)
	case protocol.KindReply:
		err = c.answer(from, m)
	default:
		err = errKind
	}
	if err == nil {
		c.schedule()
	}
	return err
}

// serve is the coordinator's part. Its answer names on Path whom the vote is for.
func (c *voting) serve(from int, m *protocol.Message) error {
	clock, err := clockOf(c.env, from, m)
	if err != nil {
		return err
	}
	t := turn{clock, from}
	if m.Kind == protocol.KindRelease {
		if err := c.office.release(t); err != nil {
			return err
		}
		c.office.fence.learn(m)
		return nil
	}
	favored, err := c.office.request(t)
	if err != nil {
		return err
	}
	c.path[0] = c.env.Node(favored.who)
	r := c.env.Send(from, protocol.KindReply)
	r.ID, r.Path = name(c.env, t), c.path[:]
	c.office.fence.put(r)
	return nil
}

// answer counts a vote. Of a round that is over, it has been given back already.
func (c *voting) answer(from int, m *protocol.Message) error {
	clock, err := clockOf(c.env, c.env.Self, m)
	if err != nil {
		return err
	}
	if len(m.Path) != 1 {
		return errBallot
	}
	favored, ok := c.env.Index(m.Path[0])
	switch {
	case !ok:
		return errBallot
	case clock > c.round:
		return errNobody
	case clock < c.round || c.phase != phaseAsking && c.phase != phaseInside:
		return nil
	case c.answers[from] != answerOut:
		return errTwice
	}
	c.office.fence.learn(m)
	c.trip = min(max(c.trip, c.env.Now()-c.asked), maxTrip)
	c.count(from, favored)
	c.decide()
	return nil
}

// unit draws a number above 0, up to 1.
func unit(env *static.Env) float64 { return float64(env.Random()>>11+1) / (1 << 53) }

// interval draws when something happens that happens once in mean on average, whatever
// happened before.
func interval(env *static.Env, mean protocol.Duration) protocol.Duration {
	d := -math.Log(unit(env)) * float64(mean)
	return 1 + protocol.Duration(min(d, 1<<61))
}
