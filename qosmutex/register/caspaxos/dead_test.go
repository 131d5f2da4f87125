package caspaxos

import (
	"slices"
	"strings"
)

func insert(net []int32, sent []int32) []int32 {
	copied := false
	for _, id := range sent {
		i, found := slices.BinarySearch(net, id)
		if found {
			continue
		}
		if !copied {
			net, copied = slices.Clone(net), true
		}
		net = slices.Insert(net, i, id)
	}
	return net
}

// prune drops messages that can do nothing any more: answers to what is over, and
// questions that were answered or whose answer would be one of those.
func (e *explorer) prune(w *world) {
	for i, id := range w.net {
		if !e.dead(w, id) {
			continue
		}
		net := slices.Clone(w.net[:i])
		for _, id := range w.net[i+1:] {
			if !e.dead(w, id) {
				net = append(net, id)
			}
		}
		w.net = net
		return
	}
}

type deadKey struct {
	message, from, to int32
	calm              bool
}

func (e *explorer) dead(w *world, id int32) bool {
	from, to := e.ends[id][0], e.ends[id][1]
	if strings.Contains(e.scenario.dead, names[to]) {
		return true
	}
	key := deadKey{id, w.machines[from], w.machines[to], w.power == 0 && w.restarts == 0 || !strings.Contains(e.only, names[to])}
	dead, ok := e.deads[key]
	if !ok {
		dead = e.isDead(e.messages[id], e.machines[key.from], e.machines[key.to], key.calm)
		e.deads[key] = dead
	}
	return dead
}

// isDead reports whether a message can do nothing at to, nor its answer at from.
func (e *explorer) isDead(msg *Message, from, to *Machine, calm bool) bool {
	asking := func(m *Machine, p phase) bool {
		return m.find(func(o *op) bool {
			return o.phase == p && (p == reading && o.seq == msg.Seq || p != reading && o.ballot == msg.Ballot)
		}) != nil
	}
	promised, accepted := Ballot{Round: to.floor, Config: 1, Voter: voters}, Ballot{}
	for _, key := range append(slices.Clone(msg.Keys), keysOf(msg.Slots)...) {
		if s := to.slots[key]; s != nil {
			accepted = s.Accepted
			if promised.Compare(s.promised) < 0 {
				promised = s.promised
			}
		}
	}
	source := func(m *Machine, id string, number uint32) bool {
		return m.install != nil && m.next.Number == number && slices.ContainsFunc(m.install.sources, func(s source) bool {
			return s.id == id && (!s.done || !s.installed) && s.wanted() == msg.After
		})
	}
	number := func(m *Machine) uint32 {
		if m.newest() == nil {
			return 0
		}
		return m.newest().Number
	}
	if msg.Config != 0 && to.config != nil && to.config.Number > msg.Config && number(from) >= to.config.Number && msg.Kind != KindFetch && msg.Kind != KindPage {
		return true
	}
	switch msg.Kind {
	case KindEnroll:
		return number(from) > 0 || to.enrolled[msg.From].instance == msg.Run.Instance
	case KindReject:
		return to.config != nil || to.refusal != ReasonNone || msg.About != to.opts.Boot
	case KindFetch:
		return !source(from, msg.To, msg.Next.Number)
	case KindPage:
		return !source(to, msg.From, msg.Target)
	case KindHello:
		return to.newest() != nil && from.newest() != nil && from.newest().Number >= to.newest().Number
	case KindCurrent:
		return to.newest() != nil && to.newest().Number >= msg.Next.Number
	case KindPromise:
		return !asking(to, preparing)
	case KindAccepted:
		return !asking(to, accepting)
	case KindValues:
		return !asking(to, reading)
	case KindRefused:
		return !asking(to, preparing) && !asking(to, accepting) && !asking(to, reading) && msg.Round <= to.seen
	case KindRead:
		return !asking(from, reading)
	case KindPrepare:
		return promised.Compare(msg.Ballot) >= 0 && !asking(from, preparing) || calm && promised == msg.Ballot
	case KindAccept:
		return promised.Compare(msg.Ballot) > 0 && !asking(from, accepting) || calm && accepted == msg.Ballot
	}
	return false
}

func keysOf(slots []Slot) []string {
	var keys []string
	for i := range slots {
		keys = append(keys, slots[i].Key)
	}
	return keys
}
