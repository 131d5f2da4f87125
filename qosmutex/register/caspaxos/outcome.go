package caspaxos

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/register"
)

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
	e := &register.Unavailable{Missing: missing, Unknown: unknown}
	if m.config != nil && !m.hasRoom(o.keys) { // those that have not answered yet would not help
		e.Missing, e.Cause = m.silent(), ErrNoRoom
	}
	m.out.Answers = append(m.out.Answers, Answer{Seq: o.id.seq, Err: e})
}

// ErrNoRoom is the cause of an *register.Unavailable where this voter keeps as many names as it may.
var ErrNoRoom = fmt.Errorf("the register is full: it keeps %d names, and never deletes one: \"pubsub-node voters reset\" begins another", MaxKeys)

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
	if room, _ := m.Room(msg.From); !room {
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
