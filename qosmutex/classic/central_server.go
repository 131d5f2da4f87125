package classic

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// server is the queue at participant 0.
type server struct {
	env    *static.Env
	fence  fence
	holder turn // inside, or about to hear that it is; zero: nobody
	queue  []queued
	newest []uint64 // of each participant, the clock of its latest request
}

type queued struct {
	turn
	priority int64
}

// request puts t in its place; t is in the queue already if its priority changed.
func (s *server) request(t turn, priority int64) error {
	if t == s.holder {
		return nil // a change of priority that crossed the Reply
	}
	i := s.place(t.who)
	switch {
	case i >= 0 && s.queue[i].turn == t:
		s.queue = slices.Delete(s.queue, i, i+1)
	case i >= 0 || s.holder.who == t.who && !s.holder.isZero():
		return errAsked
	case t.clock <= s.newest[t.who]:
		return errRepeat
	}
	s.newest[t.who] = t.clock
	i = len(s.queue)
	for i > 0 && s.queue[i-1].priority > priority {
		i--
	}
	s.queue = slices.Insert(s.queue, i, queued{t, priority})
	return nil
}

// end takes a Release or a Withdraw. A Withdraw of the holder's crossed the Reply.
func (s *server) end(t turn, kind protocol.Kind) error {
	if t == s.holder {
		s.holder = turn{}
		return nil
	}
	i := s.place(t.who)
	if i < 0 || s.queue[i].turn != t || kind != protocol.KindWithdraw {
		return errNobody
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return nil
}

func (s *server) place(who int) int {
	return slices.IndexFunc(s.queue, func(q queued) bool { return q.who == who })
}

// serve grants to the first in the queue if nobody is inside. The fence is counted
// here alone, so it rises.
func (c *central) serve() {
	s := c.server
	if !s.holder.isZero() || len(s.queue) == 0 {
		return
	}
	s.holder = s.queue[0].turn
	s.queue = slices.Delete(s.queue, 0, 1)
	f := s.fence.next()
	if s.holder.who == c.env.Self {
		c.waits = false
		c.env.Enter(f)
		return
	}
	m := c.env.Send(s.holder.who, protocol.KindReply)
	m.ID = name(c.env, s.holder)
	s.fence.put(m)
}
