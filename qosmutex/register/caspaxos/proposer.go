package caspaxos

import (
	"cmp"
	"math/bits"
	"slices"

	"padme/qosmutex/register"
)

// op is a question of an application or client, until it is answered.
type op struct {
	id     opID
	keys   []string
	writes []register.Write // one for each key, or none: a read
	until  Time             // gives up
	again  Time             // repeats, or ends its back-off

	phase    phase
	seq      uint64 // of the read
	ballot   Ballot
	heard    uint8 // voters that answered in this phase
	items    []item
	attempts int
	reads    int  // a read: how often it has asked without a ballot
	repeats  int  // of the question of this phase
	tried    bool // an Accept of an earlier ballot may still be on its way
}

// opID tells ops apart: client is empty for those of this process.
type opID struct {
	client string
	seq    uint64
}

type phase uint8

const (
	waiting phase = iota // for a back-off, or until this voter may vote
	reading
	preparing
	accepting
)

// item is what an op knows of one key.
type item struct {
	best    Slot  // highest that was accepted
	same    uint8 // voters that have accepted just that
	next    State // to be accepted, if write
	write   bool
	outcome Outcome
	read    bool // outcome is what a read has found
}

// What goes on at once.
const (
	MaxOps          = 1024 // that go on at once; half of them may be those of clients
	MaxOpsPerClient = 64
	maxWithin       = Time(60e9) // of a client's request
)

// begin starts an op.
func (m *Machine) begin(o *op) {
	for i := range o.writes {
		o.keys = append(o.keys, o.writes[i].Key)
	}
	m.ops = append(m.ops, o)
	if len(m.ops) > MaxOps {
		m.crowded.add(cmp.Or(o.id.client, m.opts.Self))
		m.giveUp(o)
		return
	}
	m.attempt(o)
}

func (m *Machine) find(is func(*op) bool) *op {
	if i := slices.IndexFunc(m.ops, is); i >= 0 {
		return m.ops[i]
	}
	return nil
}

// voting reports whether this voter may propose.
func (m *Machine) voting() bool { return m.config != nil && m.next == nil }

// attempt begins again, with a read or under a ballot of its own.
func (m *Machine) attempt(o *op) {
	o.tried = o.tried || o.phase == accepting
	o.phase, o.heard = waiting, 0
	o.clear()
	o.again, o.repeats = m.later(0), 0
	if !m.voting() {
		return
	}
	if o.writes == nil && o.attempts == 0 {
		o.phase = reading
		o.reads++
		m.lastSeq++
		o.seq = m.lastSeq
		m.ask(o, nil)
		return
	}
	m.prepare(o)
}

func (m *Machine) prepare(o *op) {
	if !m.afford(o) {
		m.refuse(o)
		return
	}
	o.attempts++
	o.phase, o.heard = preparing, 0
	o.clear()
	o.again, o.repeats = m.later(0), 0
	o.ballot = Ballot{m.config.Number, m.seen + 1, uint8(m.config.index(m.opts.Self))}
	m.cover(o.ballot.Round)
	m.ask(o, nil)
}

// ask sends the question of the op's phase to all voters, or again to those that have
// not answered. This voter answers at once, as the last one: that may complete the op.
func (m *Machine) ask(o *op, answered func(voter int) bool) {
	msg := Message{Kind: KindRead, Seq: o.seq, Keys: o.open()}
	switch o.phase {
	case preparing:
		msg = Message{Kind: KindPrepare, Ballot: o.ballot, Keys: msg.Keys}
	case accepting:
		msg = Message{Kind: KindAccept, Ballot: o.ballot}
		for i := range o.items {
			if o.items[i].write {
				msg.Slots = append(msg.Slots, Slot{Key: o.keys[i], State: o.items[i].next})
			}
		}
	}
	for i, v := range m.config.Voters {
		if answered == nil || !answered(i) {
			copied := msg
			m.send(v.ID, &copied)
		}
	}
	if self := m.config.index(m.opts.Self); m.now >= m.quiet && (answered == nil || !answered(self)) {
		msg.From = cmp.Or(o.id.client, m.opts.Self) // whose question it is
		reply := m.consider(&msg)
		reply.From = m.opts.Self
		_ = m.counted(&reply)
	}
}

// repeat does what is due for an op: its messages were lost, or its back-off is over.
func (m *Machine) repeat(o *op) {
	if o.phase == waiting || !m.voting() {
		m.attempt(o)
		return
	}
	o.repeats++
	o.again = m.later(o.repeats)
	m.ask(o, func(i int) bool { return o.heard&(1<<i) != 0 })
}

// later is when to repeat what was repeated n times: longer each time, or messages that
// take long would be repeated faster than they travel.
func (m *Machine) later(n int) Time { return m.now + m.opts.Resend<<min(n, 5) }

// counted takes the answer of a voter.
func (m *Machine) counted(msg *Message) error {
	o := m.find(func(o *op) bool {
		switch o.phase {
		case reading:
			return msg.Seq == o.seq && (msg.Kind == KindValues || msg.Kind == KindRefused) && msg.Ballot.IsZero()
		case preparing:
			return msg.Ballot == o.ballot && (msg.Kind == KindPromise || msg.Kind == KindRefused)
		case accepting:
			return msg.Ballot == o.ballot && (msg.Kind == KindAccepted || msg.Kind == KindRefused)
		}
		return false
	})
	m.seen = max(m.seen, msg.Round)
	switch {
	case o == nil:
		return dropped("%v of %s is for nothing that is going on", msg.Kind, msg.From)
	case msg.Kind == KindRefused && msg.Large:
		m.tooLarge(o)
		return nil
	case msg.Kind == KindRefused:
		m.backOff(o)
		return nil
	case msg.Kind != KindAccepted && len(msg.Slots) != len(o.open()):
		return dropped("%v of %s has %d slots for %d keys", msg.Kind, msg.From, len(msg.Slots), len(o.open()))
	}
	voter := uint8(1) << m.config.index(msg.From)
	if o.heard&voter != 0 {
		return nil // it came twice
	}
	o.heard |= voter
	if o.phase != accepting {
		slots := msg.Slots
		for i := range o.items {
			if it := &o.items[i]; !it.read {
				it.count(voter, &slots[0])
				slots = slots[1:]
			}
		}
	}
	if bits.OnesCount8(o.heard) < m.config.majority() {
		return nil
	}
	switch o.phase {
	case reading:
		m.read(o)
	case preparing:
		m.decide(o)
	case accepting:
		m.finished(o)
	}
	return nil
}

// decide knows what is current, since a majority has promised to accept nothing below
// the ballot, and says what is to be.
func (m *Machine) decide(o *op) {
	any := false
	for i := range o.items {
		it := &o.items[i]
		if it.read {
			continue
		}
		it.next, it.outcome.State = it.best.State, it.best.State
		it.write = !m.chosen(it) && !it.best.Accepted.IsZero()
		if o.writes != nil {
			m.compare(o, it, &o.writes[i])
		}
		any = any || it.write
	}
	if !any {
		m.finished(o)
		return
	}
	o.phase, o.heard, o.again, o.repeats = accepting, 0, m.later(0), 0
	m.ask(o, nil)
}

// compare makes the write, if it replaces what is current.
func (m *Machine) compare(o *op, it *item, w *register.Write) {
	current := m.config.version(it.best.State.Stamp)
	switch {
	case w.Made(current):
	case w.Replaces(current):
		it.write = true
		it.next = State{Value: w.Value, Stamp: Stamp{current.Counter + 1, w.Nonce}}
		it.next.Firm = it.next.Stamp
		if w.Renewal > 0 && current.Counter > 0 && (it.best.State.renewed() || m.chosen(it)) {
			it.next.Firm = it.best.State.Firm // which a majority has on disk
			it.next.Lease = Time(w.Renewal)
		}
		it.outcome.State = State{Stamp: it.next.Stamp}
	default:
		// A request may have been made before, by another voter or by this one.
		again := o.tried || o.id.client != ""
		it.outcome.Conflict = true
		it.outcome.Unknown = again && current.Counter > w.Old.Counter+1
	}
}

// backOff waits for a moment, at random, and longer after each attempt.
func (m *Machine) backOff(o *op) {
	o.tried = o.tried || o.phase == accepting
	o.phase = waiting
	if o.attempts == 0 {
		o.attempts = 1 // a read that was refused goes on with a ballot
	}
	long := m.opts.Backoff << min(o.attempts, 6)
	o.again = m.now + m.opts.Backoff/2 + Time(m.draw()%uint64(max(long, 1)))
}

// draw returns the next random number (splitmix64).
func (m *Machine) draw() uint64 {
	m.random += 0x9e3779b97f4a7c15
	z := m.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (m *Machine) remove(o *op) {
	m.ops = slices.DeleteFunc(m.ops, func(p *op) bool { return p == o })
}
