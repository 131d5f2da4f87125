package caspaxos

import "cmp"

// What one client may have a voter do. Each is generous for a root that keeps thousands of
// locks, and little of what a register has room for.
const (
	MaxNames  = 12 << 10   // names that it creates at once; it may do so at each of five voters
	nameAfter = Time(6e9)  // and then one in this time
	nameBytes = 1 << 10    // a larger value counts as more names
	maxOwing  = 1 << 12    // clients that have created names lately
	roomOps   = MaxOps / 2 // of all clients; the rest is for this voter's own process
)

// refusals counts what was refused, and to whom the last time.
type refusals struct {
	n  uint64
	to string
}

func (r *refusals) add(to string) { r.n, r.to = r.n+1, to }

// Room reports whether a client's request may begin now. If not, it is dropped, so the
// caller had better keep it until one of those that are going on has ended: of its own if it
// has as many as it may, else of others.
func (m *Machine) Room(client string) (room, own bool) {
	mine, all := 0, 0
	for _, o := range m.ops {
		if o.id.client == client {
			mine++
		}
		if o.id.client != "" {
			all++
		}
	}
	own = mine >= MaxOpsPerClient
	return !own && all < roomOps, own
}

// Cost is how many bytes of keys and values a request has each voter send or take, about.
func (m *Machine) Cost(request *Message) int {
	n, keys := 0, request.Keys
	for i := range request.Writes {
		n += len(request.Writes[i].Value)
		keys = append(keys, request.Writes[i].Key)
	}
	current := m.bytes(keys)
	if len(keys) > 1 && current > MaxBytes { // is refused before anything is sent
		return 0
	}
	return n + current
}

// afford charges a client for the names that an op creates, and for values that are much
// larger than what they replace. It reports false if the client has created too many. A
// name is never deleted, so this is what keeps the register from being filled by one.
func (m *Machine) afford(o *op) bool {
	if o.id.client == "" || o.keys[0] == configKey {
		return true
	}
	names := 0
	for i, key := range o.keys {
		s, now, then := m.slots[key], 0, 0
		if s == nil {
			names++
		} else {
			now = len(s.State.Value)
		}
		if o.writes != nil {
			then = len(o.writes[i].Value)
		}
		names += max(0, then/nameBytes-now/nameBytes)
	}
	if names == 0 {
		return true
	}
	owing := max(m.owing[o.id.client], m.now) + Time(names)*nameAfter
	if owing-m.now > Time(cmp.Or(m.opts.Names, MaxNames))*nameAfter {
		return false
	}
	if len(m.owing) >= maxOwing {
		for client, until := range m.owing {
			if until <= m.now {
				delete(m.owing, client)
			}
		}
		if _, known := m.owing[o.id.client]; !known && len(m.owing) >= maxOwing {
			return false
		}
	}
	m.owing[o.id.client] = owing
	return true
}

// refuse answers a client that has created too many names. Another voter may take it.
func (m *Machine) refuse(o *op) {
	m.remove(o)
	m.denied.add(o.id.client)
	m.send(o.id.client, &Message{Kind: KindReply, Seq: o.id.seq, Failed: true, Unknown: o.tried})
}
