package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// standing is a voter's attempt to become the root. It first asks whether a
// majority would vote for it, so that one that merely does not hear the root does
// not disturb its reign; then it asks for the votes.
type standing struct {
	bid   protocol.Epoch // zero: we do not stand
	probe bool
	sent  protocol.Time // when the votes were asked for; the lease of the elected counts from here
	ayes  []protocol.Node
	again protocol.Time // not before
	above uint64        // the highest epoch number that a refusal named
}

// standAt is when we would stand: when our promise to the root is over, and the
// more important voters have had their chance. A root that answered us since then
// lives: it has its majority without us. Who has not heard the settings yet has a vote,
// but cannot be the root: the topic would lose them.
func (m *Machine) standAt() protocol.Time {
	if !m.votes() || m.role == protocol.Root || m.role == protocol.Founding || m.departing || m.settings.Version == 0 {
		return protocol.Never
	}
	b := m.ballot
	turn := slices.Index(b.of.voters, m.self)
	at := max(b.until+protocol.Time(turn)*m.timing.JoinWait, b.again)
	if s := &m.session; s.number != 0 && s.until-m.timing.TTL >= b.until {
		at = max(at, s.until)
	}
	return at
}

// stand asks for the votes of all.
func (m *Machine) stand() {
	b := m.ballot
	number := protocol.NextView(max(b.epoch.Number, m.epoch.Number, b.above))
	b.standing = standing{
		bid: protocol.Epoch{Number: number, Tie: tie(m.self)}, probe: true, above: b.above,
		again: m.now + protocol.Time(len(b.of.voters)+1+slices.Index(b.of.voters, m.self))*m.timing.JoinWait,
	}
	m.canvass()
}

func (m *Machine) canvass() {
	b := m.ballot
	b.sent, b.ayes = m.now, append(b.ayes[:0], m.self)
	for _, n := range b.of.voters {
		if n == m.self {
			continue
		}
		msg := m.emit(protocol.KindCanvass, n)
		msg.Epoch, msg.Sent = b.bid, b.sent
		msg.Grant = protocol.Grant{Epoch: b.of.epoch, Number: b.of.version}
		if b.probe {
			msg.Flags |= protocol.FlagProbe
		}
	}
}

// onCanvass votes, once in each epoch number, for a candidate whose electorate is
// not older than ours, unless we are bound to another. That ours may not name it, or
// us, does no harm: electorates that follow each other differ by one.
func (m *Machine) onCanvass(msg *protocol.Message) error {
	if msg.Epoch.Tie != tie(msg.From) {
		return m.invalid(msg, "not an epoch of its own")
	}
	if m.under != "" || m.role == protocol.Root && m.ballot == nil {
		return m.stale(msg, "we have no vote")
	}
	if m.ballot == nil { // named a voter, but the root could not tell us any more
		m.ballot = &ballot{}
	}
	b := m.ballot
	answer := m.emit(protocol.KindVote, msg.From)
	answer.Epoch, answer.Sent, answer.Number = msg.Epoch, msg.Sent, b.epoch.Number
	top := max(b.fences, m.topFence()) // we may have been the root
	answer.Fences = protocol.Fences{Next: top, End: top}
	answer.Flags = msg.Flags & protocol.FlagProbe
	voted := b.epoch == msg.Epoch // then it did not hear our vote
	outdated := b.of.compare(msg.Grant.Epoch, msg.Grant.Number) > 0
	if outdated { // nobody else may be left who can tell
		answer.Grant, answer.Path = protocol.Grant{Epoch: b.of.epoch, Number: b.of.version}, b.of.voters
	}
	switch {
	case m.role == protocol.Root, outdated,
		msg.Epoch.Number <= b.epoch.Number && !voted, m.now < b.until && b.root != msg.From:
		answer.Flags |= protocol.FlagRefused
		return nil
	case msg.Flags&protocol.FlagProbe != 0:
		return nil
	}
	b.epoch, b.root, b.until = msg.Epoch, msg.From, m.now+m.promiseSpan()
	b.standing = standing{}
	return nil
}

func (m *Machine) onVote(msg *protocol.Message) error {
	b := m.ballot
	if b == nil || b.bid.Number == 0 || msg.Epoch != b.bid || msg.Sent != b.sent ||
		(msg.Flags&protocol.FlagProbe != 0) != b.probe || !slices.Contains(b.of.voters, msg.From) {
		return m.stale(msg, "we do not stand for this")
	}
	if m.farAhead(msg.Number) || m.farAhead(msg.Grant.Epoch.Number) || msg.Fences.End > maxFence || len(msg.Path) > mostVoters+1 {
		return m.invalid(msg, "not an epoch, fence or electorate that can be")
	}
	if msg.Flags&protocol.FlagRefused != 0 {
		b.above = max(b.above, msg.Number)
		if len(msg.Path) > 0 && b.of.compare(msg.Grant.Epoch, msg.Grant.Number) < 0 {
			b.of = electorate{msg.Grant.Epoch, msg.Grant.Number, slices.Clone(msg.Path)}
			b.standing = standing{above: b.above, again: m.now + m.timing.JoinWait}
		}
		return nil
	}
	if slices.Contains(b.ayes, msg.From) {
		return nil
	}
	b.ayes = append(b.ayes, msg.From)
	b.fences = max(b.fences, msg.Fences.End)
	switch {
	case len(b.ayes) <= len(b.of.voters)/2:
	case b.probe:
		b.probe = false
		b.epoch, b.root, b.until = b.bid, m.self, m.now+m.promiseSpan()
		m.canvass()
	default:
		m.elected()
	}
	return nil
}

// elected begins a reign that nobody handed to us. The votes are promises, so the
// lease counts from when they were asked for. Of the tokens we know nothing: see
// inherit.
func (m *Machine) elected() {
	b := m.ballot
	b.tally.views++
	won := b.standing
	b.standing = standing{}
	if m.parent != nil {
		m.emitOn(m.parent, protocol.KindDetach)
	}
	m.forgetHandover()
	m.roll = nil
	m.fences = max(m.fences, b.fences)
	b.of = electorate{won.bid, 1, b.of.voters}
	b.reign = &reign{started: true}
	m.becomeRoot(won.bid)
	m.lease.sent = won.sent
	for _, n := range won.ayes {
		if n != m.self {
			m.pledgeOf(n).sent = won.sent
		}
	}
	m.inherit()
	m.renewSettings()
	m.serveTries()
	m.lead()
	m.beacon.number++
	m.beacon.members = 1
	m.sendBeacons()
	m.offer(protocol.Node{}) // whoever lost the old root need not ask
}
