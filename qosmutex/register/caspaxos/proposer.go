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

const (
	maxOps          = 1024
	maxOpsPerClient = 64
	maxWithin       = Time(60e9) // of a client's request
)

// begin starts an op.
func (m *Machine) begin(o *op) {
	for i := range o.writes {
		o.keys = append(o.keys, o.writes[i].Key)
	}
	m.ops = append(m.ops, o)
	if len(m.ops) > maxOps {
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

// clear forgets what was counted, but for the keys that are read.
func (o *op) clear() {
	items := make([]item, len(o.keys))
	for i := range o.items {
		if o.items[i].read {
			items[i] = o.items[i]
		}
	}
	o.items = items
}

// open returns the keys that are not read yet.
func (o *op) open() []string {
	if !slices.ContainsFunc(o.items, func(it item) bool { return it.read }) {
		return o.keys
	}
	var keys []string
	for i := range o.items {
		if !o.items[i].read {
			keys = append(keys, o.keys[i])
		}
	}
	return keys
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

// count takes what a voter has accepted.
func (it *item) count(voter uint8, s *Slot) {
	switch c := s.Accepted.Compare(it.best.Accepted); {
	case c > 0:
		it.best, it.same = *s, voter
	case c == 0:
		it.same |= voter
	}
}

// chosen reports whether a majority has accepted the state, or nothing at all. What
// was accepted in the configuration before was copied: two voters may have copied a
// state that was never chosen, and a third one a higher one.
func (m *Machine) chosen(it *item) bool {
	b := it.best.Accepted
	return bits.OnesCount8(it.same) >= m.config.majority() && (b.IsZero() || b.Config == m.config.Number)
}

// mostReads is how often a read asks without a ballot, which disturbs no write. Where a majority
// does not agree, a write is usually under way.
const mostReads = 3

// read answers once a majority has agreed on every key. Of those on which it does not, it has
// the state written again in the end.
func (m *Machine) read(o *op) {
	all := true
	for i := range o.items {
		it := &o.items[i]
		if it.read = it.read || m.chosen(it); it.read {
			it.outcome.State = it.best.State
		}
		all = all && it.read
	}
	switch {
	case all:
		m.finished(o)
	case o.reads < mostReads:
		o.phase, o.again = waiting, m.now+m.opts.Backoff
	default:
		m.prepare(o)
	}
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

// finished answers an op.
func (m *Machine) finished(o *op) {
	m.remove(o)
	if o.keys[0] == configKey {
		m.decided(o)
		return
	}
	if o.id.client != "" {
		reply := Message{Kind: KindReply, Seq: o.id.seq}
		for i := range o.items {
			reply.Outcomes = append(reply.Outcomes, o.items[i].outcome)
		}
		m.send(o.id.client, &reply)
		return
	}
	a := Answer{Seq: o.id.seq}
	for i := range o.items {
		if it := &o.items[i]; o.writes == nil {
			a.Entries = append(a.Entries, m.config.Entry(&it.outcome))
		} else {
			a.Results = append(a.Results, m.config.Result(&o.writes[i], &it.outcome))
		}
	}
	m.out.Answers = append(m.out.Answers, a)
}

// Entry returns what a read of a key has found.
func (c *Config) Entry(o *Outcome) register.Entry {
	return register.Entry{Value: slices.Clone(o.State.Value), Version: c.version(o.State.Stamp)}
}

// Result returns what has come of a write.
func (c *Config) Result(w *register.Write, o *Outcome) register.Result {
	if o.Conflict {
		return register.Result{Err: &register.Conflict{Key: w.Key, Old: w.Old, Current: c.Entry(o), Unknown: o.Unknown}}
	}
	return register.Result{Version: c.version(o.State.Stamp)}
}

// giveUp answers an op without an outcome.
func (m *Machine) giveUp(o *op) {
	m.remove(o)
	missing := m.missing(o)
	unknown := o.writes != nil && (o.tried || o.phase == accepting)
	if o.id.client != "" && o.keys[0] == configKey {
		m.send(o.id.client, &Message{Kind: KindReplaced, Seq: o.id.seq, Failed: true, Missing: missing})
		return
	}
	if o.id.client != "" {
		m.send(o.id.client, &Message{Kind: KindReply, Seq: o.id.seq, Failed: true, Unknown: unknown, Missing: missing})
		return
	}
	m.out.Answers = append(m.out.Answers, Answer{Seq: o.id.seq, Err: &register.Unavailable{Missing: missing, Unknown: unknown}})
}

// tooLarge answers an op that has to be asked in parts. A voter refuses it before
// anything is written.
func (m *Machine) tooLarge(o *op) {
	m.remove(o)
	if o.id.client != "" {
		m.send(o.id.client, &Message{Kind: KindReply, Seq: o.id.seq, Large: true})
		return
	}
	m.out.Answers = append(m.out.Answers, Answer{Seq: o.id.seq, Err: ErrLarge})
}

// missing lists the voters that have not answered an op, or, while it cannot ask, that
// were not heard of for a while.
func (m *Machine) missing(o *op) []string {
	if o.phase == waiting || m.config == nil {
		return m.silent()
	}
	var list []string
	for i, v := range m.config.Voters {
		if o.heard&(1<<i) == 0 {
			list = append(list, v.ID)
		}
	}
	return list
}

// request begins an op for a client.
func (m *Machine) request(msg *Message) error {
	id := opID{client: msg.From, seq: msg.Seq}
	if m.find(func(o *op) bool { return o.id == id }) != nil {
		return dropped("the request %d of %s came twice", msg.Seq, msg.From)
	}
	if !m.Room(msg.From) {
		return dropped("the request %d of %s: too many are going on", msg.Seq, msg.From)
	}
	o := &op{id: id, keys: slices.Clone(msg.Keys), writes: msg.Writes, until: m.now + min(max(msg.Within, 1), maxWithin)}
	if err := o.check(); err != nil {
		return dropped("the request %d of %s: %v", msg.Seq, msg.From, err)
	}
	if known := m.newest(); known != nil && msg.Config != known.Number {
		m.send(msg.From, &Message{Kind: KindCurrent, Next: known})
	}
	m.begin(o)
	return nil
}

// check reports what is wrong with an op of a client.
func (o *op) check() error {
	if (len(o.keys) == 0) == (len(o.writes) == 0) {
		return dropped("%d keys and %d writes", len(o.keys), len(o.writes))
	}
	keys, bytes := slices.Clone(o.keys), 0
	for i := range o.writes {
		bytes += len(o.writes[i].Key) + len(o.writes[i].Value)
		if err := o.writes[i].Check(); err != nil {
			return err
		}
		if o.writes[i].Nonce == 0 {
			return dropped("a write without a nonce")
		}
		keys = append(keys, o.writes[i].Key)
	}
	if len(o.writes) > 1 && bytes > MaxBytes {
		return dropped("%d writes of %d bytes", len(o.writes), bytes)
	}
	slices.Sort(keys)
	for i, key := range keys {
		if err := register.CheckKey(key); err != nil {
			return err
		}
		if i > 0 && cmp.Compare(key, keys[i-1]) == 0 {
			return dropped("key %q is named twice", key)
		}
	}
	return nil
}
