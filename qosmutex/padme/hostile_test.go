package padme

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// dump writes down everything that a machine knows and can act on. Counters, the
// time, when a peer was last heard and the number of its last message are left
// out: a link goes on behind a message that makes no sense.
func dump(m *Machine) string {
	s := fmt.Sprintf("%v %v %v clock %d epoch %v root %v depth %d anc %v gen %d join %+v beacon %d/%d session %+v settings %+v grants %d fences %d",
		m.role, m.departing, m.priority, m.clock, m.epoch, m.root, m.depth, m.ancestors, m.linkGen, m.join,
		m.beacon.number, m.beacon.members, m.session, m.settings, m.grants, m.fences)
	links := append([]*link{m.parent}, m.children...)
	for i, l := range links {
		if l == nil {
			continue
		}
		s += fmt.Sprintf("\nlink %d %v gen %d p%d session %d sent %d acked %d leaving %v", i, l.peer, l.gen, l.priority,
			l.session, l.sent, l.unacked, l.leaving())
	}
	for _, x := range m.members {
		s += fmt.Sprintf("\nsession %+v", *x)
	}
	s += fmt.Sprintf("\nauthority %+v early %+v", m.authority, m.early)
	s += "\nany" + dumpQueue(&m.any)
	for _, r := range m.resources {
		t := r.tok
		s += fmt.Sprintf("\n%s%s token %d %v bound %v target %v p%d fences %v passed %v fence %d next %d entries %v recovery %v",
			r.q.resource, dumpQueue(&r.q), t.phase, t.grant, t.bound, t.target, t.prio, t.fences, t.passed, t.fence, t.next, t.entries, t.recovery)
	}
	for _, e := range slices.Clone(m.requests) {
		s += fmt.Sprintf("\nrequest %v p%d %s hops %d state %d sent %v try %v ref %d", e.id, e.priority, e.q.resource, e.hops, e.state, e.sent, e.try, e.ref)
	}
	return s
}

func dumpQueue(q *queue) (s string) {
	for _, e := range q.waiting {
		s += fmt.Sprintf(" %v", e.id)
	}
	return fmt.Sprintf("%s total %d", s, q.total())
}

// TestHostileMessages sends a member, and the root, messages that no correct
// participant sends, or that were meant for another time. Each is an error and is
// counted, and changes nothing.
func TestHostileMessages(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A(B(D E) C) models=level-forward-forward-forward", "request D", "request C", "request E"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	nodeOf := func(name string) protocol.Node { return w.nodes[name].machine.self }
	b, a := w.nodes["B"].machine, w.nodes["A"].machine
	const next = 1 << 40 // the number that the link expects
	stranger := protocol.Node{ID: "stranger", Incarnation: 1}
	older := func(n protocol.Node) protocol.Node { n.Incarnation--; return n }
	// A message that B would take from its parent A, and one that it would take
	// from its child D; A would take fromB from its child B.
	fromA := protocol.Message{From: a.self, To: b.self, Epoch: b.epoch, Link: b.parent.gen, Seq: next}
	dl := b.child(nodeOf("D"))
	fromD := protocol.Message{From: dl.peer, To: b.self, Epoch: b.epoch, Link: dl.gen, Seq: next}
	bl := a.child(b.self)
	fromB := protocol.Message{From: b.self, To: a.self, Epoch: a.epoch, Link: bl.gen, Seq: next}
	id := protocol.RequestID{Node: nodeOf("E"), Clock: 1}
	with := func(m protocol.Message, change func(*protocol.Message)) protocol.Message { change(&m); return m }
	reply := with(fromA, func(m *protocol.Message) {
		m.Kind, m.ID, m.Resource = protocol.KindReply, id, "x"
		m.Grant, m.Fences = protocol.Grant{Epoch: b.epoch, Number: 99}, protocol.Fences{Next: 50, End: 53}
		m.Session, m.Path = b.session.number, []protocol.Node{a.self}
	})
	request := with(fromD, func(m *protocol.Message) {
		m.Kind, m.ID, m.Resource, m.Hops = protocol.KindRequest, protocol.RequestID{Node: nodeOf("D"), Clock: 1}, "x", 1
	})
	release := with(fromB, func(m *protocol.Message) {
		m.Kind, m.ID, m.Resource, m.Grant = protocol.KindRelease, protocol.RequestID{Node: nodeOf("D"), Clock: 1}, "x", a.find("x").tok.grant
		m.Fences = protocol.Fences{Next: 2, End: 4}
	})
	two := []protocol.Scheduled{{Number: 100, ID: id, Fence: 60, Session: 1}, {Number: 101, ID: id, Fence: 61, Session: 1}}
	back := []protocol.Scheduled{two[1], two[0]}
	direct := with(reply, func(m *protocol.Message) { // from the holder
		m.Flags, m.From, m.Link, m.Seq, m.Path = protocol.FlagDirect, nodeOf("D"), 0, 0, nil
		m.ID, m.Fences.End, m.Schedule = protocol.RequestID{Node: b.self, Clock: 1}, 51, two
	})
	schedule := with(fromA, func(m *protocol.Message) {
		m.Kind, m.Link, m.Seq = protocol.KindSchedule, 0, 0
		m.Resource, m.Grant, m.Schedule = "x", protocol.Grant{Epoch: b.epoch, Number: 101}, two
	})
	beat := protocol.Message{Kind: protocol.KindBeat, From: b.self, To: a.self, Epoch: a.epoch, Session: b.session.number, Sent: 1}
	ack := protocol.Message{
		Kind: protocol.KindBeatAck, From: a.self, To: b.self, Epoch: a.epoch, Session: b.session.number,
		Sent: b.now, Attempt: b.session.asked, TTL: 3 * protocol.Second, Valid: 3 * protocol.Second,
	}

	cases := []struct {
		name   string
		to     *Machine
		msg    protocol.Message
		change func(*protocol.Message)
		want   error
	}{
		{"zero message", b, protocol.Message{}, nil, nil},
		{"no sender", b, reply, func(m *protocol.Message) { m.From = protocol.Node{} }, nil},
		{"from ourselves", b, reply, func(m *protocol.Message) { m.From = b.self }, nil},
		{"for another", b, reply, func(m *protocol.Message) { m.To = a.self }, ErrStale},
		{"for an older incarnation", b, reply, func(m *protocol.Message) { m.To = older(b.self) }, ErrStale},
		{"from an older incarnation", b, reply, func(m *protocol.Message) { m.From = older(a.self) }, ErrStale},
		{"to everybody", b, reply, func(m *protocol.Message) { m.To = protocol.Node{} }, ErrInvalid},
		{"unknown kind", b, reply, func(m *protocol.Message) { m.Kind = 250 }, nil},
		{"kind none", b, reply, func(m *protocol.Message) { m.Kind = 0 }, nil},
		{"reply on another link", b, reply, func(m *protocol.Message) { m.Link++ }, ErrStale},
		{"reply from a stranger", b, reply, func(m *protocol.Message) { m.From = stranger }, ErrStale},
		{"reply without a number", b, reply, func(m *protocol.Message) { m.Seq = 0 }, ErrInvalid},
		{"reply repeated", b, reply, func(m *protocol.Message) { m.Seq = b.parent.received }, nil},
		{"reply for nobody", b, reply, func(m *protocol.Message) { m.ID = protocol.RequestID{} }, ErrInvalid},
		{"reply of nothing", b, reply, func(m *protocol.Message) { m.Resource = "" }, ErrInvalid},
		{"reply of any", b, reply, func(m *protocol.Message) { m.Resource = protocol.Any }, ErrInvalid},
		{"reply without fences", b, reply, func(m *protocol.Message) { m.Fences = protocol.Fences{} }, ErrInvalid},
		{"reply with fences the wrong way", b, reply, func(m *protocol.Message) { m.Fences = protocol.Fences{Next: 9, End: 3} }, ErrInvalid},
		{"reply with an old grant", b, reply, func(m *protocol.Message) { m.ID.Node, m.Grant = nodeOf("D"), protocol.Grant{} }, ErrStale},
		{"reply with an older epoch", b, reply, func(m *protocol.Message) { m.ID.Node, m.Grant.Epoch.Number = nodeOf("D"), 0 }, ErrStale},
		{"reply with an endless path", b, reply, func(m *protocol.Message) { m.Path = make([]protocol.Node, 1000) }, ErrInvalid},
		{"reply at the end of all clocks", b, reply, func(m *protocol.Message) { m.Clock = maxClock + 1 }, ErrInvalid},
		{"reply with a C at the end of all clocks", b, reply, func(m *protocol.Message) { m.ID.Clock = 1<<64 - 1 }, ErrInvalid},
		{"old link with a higher clock", b, reply, func(m *protocol.Message) { m.Link++; m.Clock = b.clock + 1000; m.ID.Clock = b.clock + 1000 }, ErrStale},
		{"reply with a schedule that goes back", b, reply, func(m *protocol.Message) { m.Schedule = back }, ErrInvalid},
		{"direct reply for another", b, direct, func(m *protocol.Message) { m.ID.Node = a.self }, ErrInvalid},
		{"direct reply of any", b, direct, func(m *protocol.Message) { m.Resource = protocol.Any }, ErrInvalid},
		{"direct reply with more fences", b, direct, func(m *protocol.Message) { m.Fences.End = 59 }, ErrInvalid},
		{"direct reply with a schedule that goes back", b, direct, func(m *protocol.Message) { m.Schedule = back }, ErrInvalid},
		{"direct reply with a schedule before it", b, direct, func(m *protocol.Message) { m.Grant.Number = 100 }, ErrInvalid},
		{"direct reply under another session", b, direct, func(m *protocol.Message) { m.Session++ }, ErrStale},
		{"direct reply of a later term", b, direct, func(m *protocol.Message) { m.Grant.Epoch.Number++ }, ErrStale},
		{"direct reply of an old grant", b, direct, func(m *protocol.Message) { m.Grant = b.find("x").tok.grant }, ErrStale},
		{"direct reply of what there is not", b, direct, func(m *protocol.Message) { m.Resource = "nothing" }, ErrStale},
		{"direct reply to the root", a, direct, func(m *protocol.Message) { m.To, m.ID.Node, m.Session = a.self, a.self, 1 }, ErrStale},
		{"reply past the root under another model than Direct", b, direct, nil, ErrStale},
		{"the last one of all numbers, the same way", b, direct, func(m *protocol.Message) { m.Grant.Number, m.Schedule = ^uint64(0), nil }, ErrStale},
		{"schedule from another", b, schedule, func(m *protocol.Message) { m.From = nodeOf("D") }, ErrStale},
		{"schedule of a later term", b, schedule, func(m *protocol.Message) { m.Grant.Epoch.Number++ }, ErrStale},
		{"schedule of what there is not", b, schedule, func(m *protocol.Message) { m.Resource = "nothing" }, ErrStale},
		{"schedule that goes back", b, schedule, func(m *protocol.Message) { m.Schedule = back }, ErrInvalid},
		{"schedule of numbers to come", b, schedule, func(m *protocol.Message) { m.Grant.Number = 100 }, ErrInvalid},
		{"schedule to the root", a, schedule, func(m *protocol.Message) { m.From, m.To = b.self, a.self }, ErrStale},
		{"request from a parent", b, fromA, func(m *protocol.Message) {
			*m = request
			m.ID.Clock = 1
			m.From = a.self
			m.Link, m.Seq = fromA.Link, fromA.Seq
		}, ErrInvalid},
		{"reply from a child", b, fromD, func(m *protocol.Message) { *m = reply; m.From = dl.peer; m.Link, m.Seq = fromD.Link, fromD.Seq }, ErrInvalid},
		{"proposal of a resource without a name", b, fromD, func(m *protocol.Message) {
			m.Kind = protocol.KindPropose
			m.Settings = protocol.Settings{Resources: []string{""}, ResourcesBy: "D"}
		}, ErrInvalid},
		{"proposal of more than a record has room for", b, fromD, func(m *protocol.Message) {
			m.Kind = protocol.KindPropose
			m.Settings = protocol.Settings{Resources: slices.Repeat([]string{strings.Repeat("r", 500)}, 200), ResourcesBy: "D"}
		}, ErrInvalid},
		{"handover from a child", b, fromD, func(m *protocol.Message) { m.Kind = protocol.KindHandover; m.TTL = 1 }, ErrInvalid},
		{"handover for another", b, fromA, func(m *protocol.Message) {
			m.Kind = protocol.KindHandover
			m.TTL = 1
			m.Epoch.Number++
			m.Epoch.Tie = 7
		}, ErrInvalid},
		{"handover of this term", b, fromA, func(m *protocol.Message) { m.Kind = protocol.KindHandover; m.Epoch.Tie = b.self.Tie() }, ErrStale},
		{"request of nobody", b, request, func(m *protocol.Message) { m.ID = protocol.RequestID{} }, ErrInvalid},
		{"request in our name", b, request, func(m *protocol.Message) { m.ID.Node, m.ID.Clock = b.self, 1 }, ErrStale},
		{"request for nothing", b, request, func(m *protocol.Message) { m.Resource = "" }, ErrInvalid},
		{"request from nowhere", b, request, func(m *protocol.Message) { m.Hops = 0 }, ErrInvalid},
		{"request from too far", b, request, func(m *protocol.Message) { m.Hops = 1 << 31 }, ErrInvalid},
		{"request with a C at the end of all clocks", b, request, func(m *protocol.Message) { m.ID.Clock = maxClock + 1 }, ErrInvalid},
		{"withdrawal of nobody", b, fromD, func(m *protocol.Message) { m.Kind = protocol.KindWithdraw }, ErrStale},
		{"withdrawal of another child's request", b, fromD, func(m *protocol.Message) { m.Kind, m.ID, m.Resource = protocol.KindWithdraw, id, "x" }, ErrStale},
		{"refusal of nobody", b, fromA, func(m *protocol.Message) { m.Kind = protocol.KindDeny }, ErrStale},
		{"release of nothing", a, release, func(m *protocol.Message) { m.Resource = "" }, ErrInvalid},
		{"release of any", a, release, func(m *protocol.Message) { m.Resource = protocol.Any }, ErrInvalid},
		{"release with fences the wrong way", a, release, func(m *protocol.Message) { m.Fences = protocol.Fences{Next: 9, End: 3} }, ErrInvalid},
		{"release of an old grant", a, release, func(m *protocol.Message) { m.Grant.Number-- }, ErrStale},
		{"release of a grant to come", a, release, func(m *protocol.Message) { m.Grant.Number++ }, ErrStale},
		{"release on another link", a, release, func(m *protocol.Message) { m.Link += 5 }, ErrStale},
		{"heartbeat at a member", b, beat, func(m *protocol.Message) { m.From, m.To = dl.peer, b.self }, ErrStale},
		{"answer from another than the root", b, ack, func(m *protocol.Message) { m.From = dl.peer }, ErrStale},
		{"answer about the future", b, ack, func(m *protocol.Message) { m.Sent = b.now + protocol.Second }, ErrStale},
		{"answer without a TTL", b, ack, func(m *protocol.Message) { m.TTL = 0 }, ErrStale},
		{"answer about another session", b, ack, func(m *protocol.Message) { m.Session++ }, ErrStale},
		{"answer that came too late", b, ack, func(m *protocol.Message) { m.Sent = b.now - 4*protocol.Second }, ErrStale},
		{"answer to another question", b, ack, func(m *protocol.Message) { m.Attempt++ }, ErrStale},
		{"goodbye of another session", a, beat, func(m *protocol.Message) { m.Kind = protocol.KindGoodbye; m.Session++ }, ErrStale},
		{"goodbye of a stranger", a, beat, func(m *protocol.Message) { m.Kind = protocol.KindGoodbye; m.From = stranger }, ErrStale},
		{"attachment without a session", a, protocol.Message{Kind: protocol.KindAttach, From: stranger, To: a.self, Link: 1}, nil, ErrInvalid},
		{"attachment without a link", a, protocol.Message{Kind: protocol.KindAttach, From: stranger, To: a.self, Session: 1}, nil, ErrInvalid},
		{"acceptance not asked for", b, protocol.Message{Kind: protocol.KindAccept, From: stranger, To: b.self, Link: 1, Epoch: b.epoch}, nil, ErrStale},
		{"report not asked for", a, protocol.Message{Kind: protocol.KindReport, From: b.self, To: a.self, Resource: "x", Grant: a.find("x").tok.grant, Verdict: protocol.VerdictNever}, nil, ErrStale},
		{"report about nothing", a, protocol.Message{Kind: protocol.KindReport, From: b.self, To: a.self, Resource: "nosuch", Verdict: protocol.VerdictNever}, nil, ErrStale},
		{"sync about nothing", b, protocol.Message{Kind: protocol.KindSync, From: a.self, To: b.self}, nil, ErrInvalid},
		{"sync at the root", a, protocol.Message{Kind: protocol.KindSync, From: b.self, To: a.self, Resource: "x"}, nil, ErrStale},
		{"sync about an epoch to come", b, protocol.Message{Kind: protocol.KindSync, From: stranger, To: b.self, Resource: "x", Grant: protocol.Grant{Epoch: protocol.Epoch{Number: 1 << 62}}}, nil, ErrStale},
	}
	var out protocol.Output
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			msg := c.msg
			if c.change != nil {
				c.change(&msg)
			}
			if l := c.to.linkOf(&msg); msg.Seq == next && l != nil {
				msg.Seq = l.received + 1
			}
			if models := &c.to.settings.Models; strings.HasPrefix(c.name, "direct reply") {
				defer func(was protocol.PassModel) { models.Release = was }(models.Release)
				models.Release = protocol.Direct
			}
			before, dropped := dump(c.to), c.to.counters.Stale+c.to.counters.Invalid
			err := c.to.Step(c.to.now, &protocol.Input{Kind: protocol.Receive, Message: &msg}, &out)
			if repeated := c.name == "reply repeated"; err == nil && !repeated || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if c.to.counters.Stale+c.to.counters.Invalid != dropped+1 {
				t.Errorf("not counted")
			}
			if after := dump(c.to); after != before {
				t.Errorf("the machine changed:\n%s\nto:\n%s", before, after)
			}
			if len(out.Grants)+len(out.Losses)+len(out.Denials) > 0 {
				t.Errorf("the application was told: %+v", out)
			}
		})
	}
}

// TestHostileTerms sends members and a root messages about terms that no correct
// participant sends, or that were meant for another time.
func TestHostileTerms(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D", "advance 8s", "request D", "crash A", "advance 3s", "manual")
	b, c := w.nodes["B"].machine, w.nodes["C"].machine
	stranger := protocol.Node{ID: "stranger", Incarnation: 1}
	big := ^uint64(0)
	b.authority.inherit, b.fences = protocol.Never-1, max(b.fences, 1<<20)
	beat := protocol.Message{
		Kind: protocol.KindBeat, From: stranger, To: b.self, Epoch: b.epoch, Session: 7, Sent: 1,
		Tokens: []protocol.TokenState{{Resource: "x", Fence: 1}},
	}
	handover := protocol.Message{
		Kind: protocol.KindHandover, From: c.root, To: c.self,
		Epoch: protocol.Epoch{Number: c.epoch.Number + 1, Tie: c.self.Tie()},
	}
	for _, hostile := range []struct {
		name   string
		to     *Machine
		msg    protocol.Message
		change func(*protocol.Message)
		want   error
	}{
		{"holds of another term", b, beat, func(m *protocol.Message) { m.Epoch.Number-- }, ErrStale},
		{"holds with a fence of this term", b, beat, func(m *protocol.Message) { m.Tokens[0].Fence = b.fences }, ErrInvalid},
		{"holds at the end of all fences", b, beat, func(m *protocol.Message) { m.Tokens[0].Fence = big - 1 }, ErrInvalid},
		{"handover of another's term", c, handover, func(m *protocol.Message) { m.Epoch.Tie++ }, ErrInvalid},
		{"handover of a term that is over", c, handover, func(m *protocol.Message) { m.Epoch.Number-- }, ErrStale},
		{"handover at the end of all terms", c, handover, func(m *protocol.Message) { m.Epoch.Number = big }, ErrInvalid},
		{"handover by who is no root", c, handover, func(m *protocol.Message) { m.From = stranger }, ErrStale},
		{"handover to the root by a stranger", b, handover, func(m *protocol.Message) { m.From, m.To, m.Epoch = stranger, b.self, b.epoch }, ErrStale},
	} {
		t.Run(hostile.name, func(t *testing.T) {
			msg := hostile.msg
			msg.Path, msg.Tokens = slices.Clone(msg.Path), slices.Clone(msg.Tokens)
			hostile.change(&msg)
			refused(t, hostile.to, &msg, hostile.want)
		})
	}
}

// TestHostileLeases feeds a machine leases that no register can have given it.
func TestHostileLeases(t *testing.T) {
	for _, hostile := range []struct {
		name   string
		to     string
		kind   protocol.InputKind
		change func(*protocol.Lease)
	}{
		{"an appointment in a term of before", "B", protocol.Appointed, func(l *protocol.Lease) { l.Term-- }},
		{"an appointment in the same term", "A", protocol.Appointed, func(*protocol.Lease) {}},
		{"an appointment under a lease that is over", "B", protocol.Appointed, func(l *protocol.Lease) { l.Term, l.Until = l.Term+1, 1 }},
		{"an appointment without a TTL", "B", protocol.Appointed, func(l *protocol.Lease) { l.Term, l.TTL = l.Term+1, 0 }},
		{"an appointment at the end of all fences", "B", protocol.Appointed, func(l *protocol.Lease) { l.Term, l.Fences.Next = l.Term+1, ^uint64(0) }},
		{"an extension at a member", "B", protocol.Extended, func(*protocol.Lease) {}},
		{"an extension of another term", "A", protocol.Extended, func(l *protocol.Lease) { l.Term++ }},
		{"a succession that nobody yielded to", "A", protocol.Succeeded, func(l *protocol.Lease) { l.Term++ }},
		{"settings at a member", "B", protocol.Configure, func(*protocol.Lease) {}},
	} {
		t.Run(hostile.name, func(t *testing.T) {
			w := newWorld()
			play(t, w, "grow A B", "advance 2s")
			n := w.nodes[hostile.to]
			lease := w.lease(n)
			hostile.change(lease)
			before := dump(n.machine)
			var out protocol.Output
			err := n.machine.Step(n.machine.now, &protocol.Input{Kind: hostile.kind, Lease: lease, Node: w.nodes["B"].machine.self}, &out)
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v, want %v", err, ErrInvalid)
			}
			if after := dump(n.machine); after != before {
				t.Errorf("the machine changed:\n%s\nto:\n%s", before, after)
			}
		})
	}
}

// refused feeds m a message that it must refuse, count and otherwise ignore.
func refused(t *testing.T, m *Machine, msg *protocol.Message, want error) {
	t.Helper()
	var out protocol.Output
	before, dropped := dump(m), m.counters.Stale+m.counters.Invalid
	if err := m.Step(m.now, &protocol.Input{Kind: protocol.Receive, Message: msg}, &out); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if m.counters.Stale+m.counters.Invalid != dropped+1 {
		t.Error("not counted")
	}
	if after := dump(m); after != before {
		t.Errorf("the machine changed:\n%s\nto:\n%s", before, after)
	}
	if len(out.Messages)+len(out.Grants)+len(out.Losses)+len(out.Denials) > 0 {
		t.Errorf("something follows: %+v", out)
	}
}
