package caspaxos

import "padme/qosmutex/internal/pack"

// block is how many rounds one sync of the ceiling is good for.
const block = 1 << 16

// configKey is the key of the next configuration. Keys of applications are not empty.
const configKey = ""

// consider answers a Prepare, an Accept or a Read as an acceptor.
func (m *Machine) consider(msg *Message) Message {
	var keys []string
	for i := range msg.Slots {
		keys = append(keys, msg.Slots[i].Key)
	}
	keys = append(keys, msg.Keys...)
	refused := Message{Kind: KindRefused, Ballot: msg.Ballot, Seq: msg.Seq, Round: m.floor}
	if msg.Kind != KindAccept && len(keys) > 1 && m.bytes(keys) > MaxBytes {
		refused.Large = true
		return refused
	}
	if msg.Kind == KindRead {
		return Message{Kind: KindValues, Seq: msg.Seq, Slots: m.accepted(keys)}
	}
	ok := msg.Ballot.Round > m.floor && m.follows(msg.Slots)
	for _, key := range keys {
		if s := m.slots[key]; s != nil {
			refused.Round = max(refused.Round, s.promised.Round)
			ok = ok && msg.Ballot.Compare(s.promised) >= 0
		}
	}
	if !ok {
		return refused
	}
	if !m.hasRoom(keys) {
		m.full.add(msg.From)
		return refused
	}
	m.cover(msg.Ballot.Round)
	if msg.Kind == KindPrepare {
		for _, key := range keys {
			m.slot(key).promised = msg.Ballot
		}
		return Message{Kind: KindPromise, Ballot: msg.Ballot, Slots: m.accepted(keys)}
	}
	for i := range msg.Slots {
		m.accept(msg.Ballot, &msg.Slots[i])
	}
	return Message{Kind: KindAccepted, Ballot: msg.Ballot}
}

// follows reports whether what is to be accepted as the next configuration is one.
func (m *Machine) follows(slots []Slot) bool {
	for i := range slots {
		if slots[i].Key == configKey {
			r := pack.NewReader(slots[i].State.Value)
			c := readConfig(r)
			return r.End("record") == nil && c.Domain == m.config.Domain && c.Number == m.config.Number+1
		}
	}
	return true
}

// bytes is how much was accepted for some keys.
func (m *Machine) bytes(keys []string) int {
	n := 0
	for _, key := range keys {
		if s := m.slots[key]; s != nil {
			n += len(key) + len(s.State.Value)
		}
	}
	return n
}

// MaxKeys bounds what others can have a voter remember: names are never deleted. It is the same at
// all voters, or the ones with room would keep names that no majority does.
const MaxKeys = 1 << 16

// hasRoom reports whether all of these names are known, or can be remembered.
func (m *Machine) hasRoom(keys []string) bool {
	return len(m.slots)+len(keys) <= MaxKeys || m.knowsAll(keys)
}

func (m *Machine) knowsAll(keys []string) bool {
	for _, key := range keys {
		if m.slots[key] == nil {
			return false
		}
	}
	return true
}

func (m *Machine) slot(key string) *slot {
	s := m.slots[key]
	if s == nil {
		s = &slot{Slot: Slot{Key: key}}
		m.slots[key] = s
	}
	return s
}

// accepted lists what was accepted for some keys.
func (m *Machine) accepted(keys []string) []Slot {
	list := make([]Slot, len(keys))
	for i, key := range keys {
		if s := m.slots[key]; s != nil {
			list[i] = Slot{Accepted: s.Accepted, State: s.State}
		}
	}
	return list
}

// accept takes a state, and syncs it, unless it is a short renewal of what is on disk. A
// state that is no renewal is synced under each ballot: under its first one it may
// not have been chosen, and one that was accepted between the two would win.
func (m *Machine) accept(b Ballot, from *Slot) {
	s := m.slot(from.Key)
	s.promised = b
	if s.Accepted == b {
		return // a message that came twice
	}
	s.Accepted, s.State = b, from.State
	if !s.State.renewed() || s.onDisk != s.State.Firm || s.State.Lease > m.opts.Lease {
		s.onDisk = s.State.Firm
		m.persist(slotRecord(&s.Slot))
	} else {
		m.out.Unsynced = append(m.out.Unsynced, slotRecord(&s.Slot))
	}
}

// cover has the ceiling on disk before a round is promised, accepted or used.
func (m *Machine) cover(round uint64) {
	m.seen = max(m.seen, round)
	if round > m.ceiling {
		m.ceiling = round + block
		m.persist(numberRecord(recordCeiling, m.ceiling))
	}
}
