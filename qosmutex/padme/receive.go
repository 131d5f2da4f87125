package padme

import "padme/qosmutex/protocol"

// receive sorts a message: datagrams to their handlers, numbered messages
// through their link.
func (m *Machine) receive(msg *protocol.Message) error {
	if msg.From == m.self && msg.Kind == protocol.KindBeat {
		m.out.Echo = msg.Sent
		m.echo = max(m.echo, min(msg.Sent, m.called))
		m.heard(msg.Sent)
		return nil
	}
	if msg.From == m.self || msg.From.IsZero() || !msg.To.IsZero() && msg.To != m.self {
		return m.stale(msg, "not for us")
	}
	if max(msg.Clock, msg.ID.Clock) > maxClock {
		return m.invalid(msg, "clock beyond 2^63")
	}
	if m.farAhead(msg.Epoch.Number) {
		return m.invalid(msg, "term jumps by more than 2^60")
	}
	if msg.To.IsZero() != (msg.Kind == protocol.KindJoin || msg.Kind == protocol.KindOffer && msg.To.IsZero()) {
		return m.invalid(msg, "wrong kind of address")
	}
	if msg.Kind == protocol.KindReply && msg.Flags&protocol.FlagDirect != 0 {
		return m.onDirect(msg)
	}
	if handle := datagrams[msg.Kind]; handle != nil {
		return handle(m, msg)
	}
	return m.receiveOnLink(msg)
}

// datagrams handle the messages that are not numbered.
var datagrams = map[protocol.Kind]func(*Machine, *protocol.Message) error{
	protocol.KindJoin: (*Machine).onJoin, protocol.KindOffer: (*Machine).onOffer,
	protocol.KindAttach: (*Machine).onAttach, protocol.KindAccept: (*Machine).onAccept, protocol.KindRefuse: (*Machine).onRefuse,
	protocol.KindBeat: (*Machine).onBeat, protocol.KindBeatAck: (*Machine).onBeatAck, protocol.KindGoodbye: (*Machine).onGoodbye,
	protocol.KindSync: (*Machine).onSync, protocol.KindReport: (*Machine).onReport, protocol.KindHandover: (*Machine).onHandover,
	protocol.KindSchedule: (*Machine).onSchedule,
}

// mergeClock advances the Lamport clock as the papers' second rule says (§3.2): to
// the time that a Request, Reply, Release or Sync names. That is a request's C,
// not the sender's clock: under Replace an inner participant's clock runs ahead of
// what the root can know, and the root would overtake everybody by its lag.
//
// A participant that takes no part, because it is new or idle from one beacon to
// the next, catches up with the latest request that the root served in its turn, or
// its next requests would all come before everybody else's. So does one that lags by
// more than a round, because it was not served for a while under another model, or
// because it created the topic again and knew of no request. That is not the root's
// clock: where a pass model is Use, entries out of turn drive it, and a newcomer would
// wait until everybody's clock has come so far.
func (m *Machine) mergeClock(msg *protocol.Message) {
	m.clock = max(m.clock, m.near(m.turnOf(msg)))
	idle := msg.Kind == protocol.KindAccept
	switch {
	case idle:
	case msg.Kind == protocol.KindReply: // in its turn, as far as the target is concerned
		m.servedClock = max(m.servedClock, m.near(m.turnOf(msg)))
		return
	case msg.Kind == protocol.KindBeacon:
		idle, m.idle = m.idle, true
	default:
		return
	}
	m.servedClock = max(m.servedClock, m.near(msg.Clock))
	if idle && len(m.own) == 0 || m.clock+maxLag < m.servedClock {
		m.clock = max(m.clock, m.servedClock)
	}
}

// turnOf is the C by which the request that a message names is ordered. A Request says it;
// that of an older program says a C that is not below its name. Of one that is not known it is
// at most what its name says, and what the sender has heard of.
func (m *Machine) turnOf(msg *protocol.Message) uint64 {
	if e := m.requests.get(msg.ID); e != nil && msg.Kind != protocol.KindRequest {
		return e.turn
	}
	return min(msg.Clock, msg.ID.Clock)
}

// near is a clock as far as it is followed at once. What is further ahead is a forgery or a
// fault: followed to the end of all clocks, it would leave nobody a number for another
// request. It is not refused, as each participant knows other clocks: whoever passed on what
// its parent refuses would be cut off itself.
func (m *Machine) near(clock uint64) uint64 {
	return min(clock, max(m.clock, m.servedClock)+maxClockJump)
}

func (m *Machine) receiveOnLink(msg *protocol.Message) error {
	l := m.linkOf(msg)
	if l == nil {
		return m.onUnknownLink(msg)
	}
	switch msg.Kind {
	case protocol.KindBeacon:
		return m.onBeacon(l, msg)
	case protocol.KindResend:
		l.mute = 0
		l.ack(msg.Ack)
		m.repeat(l)
		return nil
	}
	if msg.Seq == 0 {
		if msg.Kind == protocol.KindDetach { // the answer of a peer to a link that it has closed
			m.closed(l)
			return nil
		}
		return m.invalid(msg, "no number")
	}
	if !m.accept(l, msg) {
		return nil
	}
	m.mergeClock(msg)
	if l == m.parent {
		return m.fromParent(msg)
	}
	return m.fromChild(l, msg)
}

func (m *Machine) fromParent(msg *protocol.Message) error {
	switch msg.Kind {
	case protocol.KindReply:
		return m.onReply(msg)
	case protocol.KindDeny:
		return m.onDeny(msg)
	case protocol.KindSettings:
		m.adoptSettings(&msg.Settings)
		return nil
	case protocol.KindMove:
		m.redirected(msg.MoveTo)
		return nil
	}
	return m.invalid(msg, "not from a parent")
}

func (m *Machine) fromChild(l *link, msg *protocol.Message) error {
	switch msg.Kind {
	case protocol.KindRequest:
		return m.onRequest(l, msg)
	case protocol.KindWithdraw:
		return m.onWithdraw(l, msg)
	case protocol.KindRelease:
		return m.onRelease(l, msg)
	case protocol.KindPropose:
		return m.onPropose(msg)
	case protocol.KindNamed:
		m.sweep(l)
		return nil
	case protocol.KindDetach:
		m.leftBy(l)
		return nil
	}
	return m.invalid(msg, "not from a child")
}
