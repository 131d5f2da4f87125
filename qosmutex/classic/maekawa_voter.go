package classic

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// voter is the half of a participant in Maekawa's algorithm that has the vote.
type voter struct {
	env      *static.Env
	cure     bool
	fence    fence
	vote     turn // for whom; zero: for nobody
	inquired bool // asked to give it back
	queue    []ballotWish
	newest   []uint64 // of each participant, the clock of its latest request
	local    []note   // from the participant to itself, not handled yet
	broken   error
}

// ballotWish is a request that waits for the vote.
type ballotWish struct {
	turn
	failed bool // knows that it is not the next
}

// note is a message from a participant to itself.
type note struct {
	kind  protocol.Kind
	clock uint64
}

// post tells participant to something about the request t. Only messages that could
// carry fences do.
func (v *voter) post(to int, kind protocol.Kind, t turn) {
	if to == v.env.Self {
		v.local = append(v.local, note{kind, t.clock})
		return
	}
	m := v.env.Send(to, kind)
	m.ID = name(v.env, t)
	if kind == protocol.KindReply || kind == protocol.KindRelease {
		v.fence.put(m)
	}
}

func (v *voter) request(t turn) error {
	waits := func(w ballotWish) bool { return w.who == t.who }
	switch {
	case slices.ContainsFunc(v.queue, waits) || !v.vote.isZero() && v.vote.who == t.who:
		return errAsked
	case t.clock <= v.newest[t.who]:
		return errRepeat
	}
	v.newest[t.who] = t.clock
	switch {
	case v.vote.isZero():
		v.vote = t
		v.post(t.who, protocol.KindReply, t)
	case v.cure:
		v.queueInOrder(t)
	default:
		v.queue = append(v.queue, ballotWish{turn: t})
	}
	return nil
}

// queueInOrder queues t while the vote is another's, and sees to it that everybody
// knows that it must wait but one: the first, if it is earlier than the one voted
// for, who is asked to give way.
func (v *voter) queueInOrder(t turn) {
	i := 0
	for i < len(v.queue) && v.queue[i].before(t) {
		i++
	}
	v.queue = slices.Insert(v.queue, i, ballotWish{turn: t})
	if i > 0 || v.vote.before(t) {
		v.fail(i)
		return
	}
	if len(v.queue) > 1 && !v.queue[1].failed {
		v.fail(1)
	}
	if !v.inquired {
		v.inquired = true
		v.post(v.vote.who, protocol.KindInquire, v.vote)
	}
}

func (v *voter) fail(i int) {
	v.queue[i].failed = true
	v.post(v.queue[i].who, protocol.KindFailed, v.queue[i].turn)
}

func (v *voter) release(t turn) error {
	if v.vote != t {
		return errNobody
	}
	v.next()
	return nil
}

// yielded takes the vote back. Who yields knows that it must wait.
func (v *voter) yielded(t turn) error {
	if v.vote != t || !v.inquired {
		return errNobody
	}
	i := 0
	for i < len(v.queue) && v.queue[i].before(t) {
		i++
	}
	v.queue = slices.Insert(v.queue, i, ballotWish{turn: t, failed: true})
	v.next()
	return nil
}

func (v *voter) next() {
	v.vote, v.inquired = turn{}, false
	if len(v.queue) > 0 {
		v.vote = v.queue[0].turn
		v.queue = slices.Delete(v.queue, 0, 1)
		v.post(v.vote.who, protocol.KindReply, v.vote)
	}
}
