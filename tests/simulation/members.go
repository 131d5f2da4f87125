package simulation

import (
	"slices"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// notes are what outlives a process: who may hold by its word as a root, and what it holds itself,
// as package register/local keeps it.
type notes struct {
	all     []protocol.Node
	settled bool
	held    []protocol.Held
	terms   []uint64        // in which the process is the root, or may be soon
	session protocol.Former // under which it is a member
}

func (f *notes) members() (all []protocol.Node, known bool) {
	if !f.settled {
		return nil, false
	}
	return slices.Clone(f.all), true
}

// keeping is a machine that notes what it is inside of before anything is sent, as package qosmutex
// does.
type keeping struct {
	machine
	self     protocol.Node
	file     *notes
	resuming bool // it is not known yet which holds of the process before go on
}

// machine is that of a member or a candidate.
type machine interface {
	protocol.Machine
	Overview() protocol.Status
	ValidUntil() protocol.Time
	CheckInvariants() error
}

// Keeps lists what outlives the process.
func (k *keeping) Keeps() []protocol.Held { return k.file.held }

// Step implements [protocol.Machine].
func (k *keeping) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Leave {
		k.file.leave(in.Ref)
	}
	err := k.machine.Step(now, in, out)
	k.note(out, false)
	return err
}

// note takes what a step has changed. known: if this participant is the root of a new term, it knows who
// may hold by the word of the former one.
func (k *keeping) note(out *protocol.Output, known bool) {
	f := k.file
	for i := range out.Losses {
		f.leave(out.Losses[i].Ref)
	}
	is := k.Overview()
	if is.Role != protocol.Root && k.ValidUntil() == 0 && k.resuming {
		return
	}
	k.goesOn(out)
	term := uint64(0)
	if is.Role == protocol.Root {
		term, is.Session = is.Epoch.Number, 0
	}
	if !slices.Equal(f.terms, []uint64{term}) && (term != 0 || len(f.terms) > 0) {
		if !known || term == 0 {
			f.all, f.settled = nil, false
		}
		if f.terms = nil; term != 0 {
			f.terms = []uint64{term}
		}
	}
	f.session = protocol.Former{Incarnation: k.self.Incarnation, Session: is.Session}
	for i := range out.Grants {
		g := &out.Grants[i]
		f.leave(g.Ref)
		f.held = append(f.held, protocol.Held{Ref: g.Ref, Resource: g.Resource, Fence: g.Fence, Priority: g.Priority})
	}
}

// goesOn ends the holds of the process before that do not go on.
func (k *keeping) goesOn(out *protocol.Output) {
	if !k.resuming {
		return
	}
	k.resuming = false
	f := k.file
	before := len(f.held)
	f.held = slices.DeleteFunc(f.held, func(h protocol.Held) bool {
		return !slices.ContainsFunc(out.Grants, func(g protocol.Granted) bool { return g.Ref == h.Ref })
	})
	f.settled = f.settled && len(f.held) == before
}

func (f *notes) leave(ref uint64) {
	f.held = slices.DeleteFunc(f.held, func(h protocol.Held) bool { return h.Ref == ref })
}

// noting is a candidate that notes its members, too.
type noting struct {
	*candidate.Machine
	keeping
}

// Overview, Status and ValidUntil are those of the candidate.
func (n *noting) Overview() protocol.Status { return n.Machine.Overview() }

// Status implements [protocol.Machine].
func (n *noting) Status() protocol.Status { return n.Machine.Status() }

// ValidUntil is that of the candidate.
func (n *noting) ValidUntil() protocol.Time { return n.Machine.ValidUntil() }

// CheckInvariants is that of the candidate.
func (n *noting) CheckInvariants() error { return n.Machine.CheckInvariants() }

// Step implements [protocol.Machine].
func (n *noting) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Leave {
		n.file.leave(in.Ref)
	}
	err := n.Machine.Step(now, in, out)
	n.noteAll(out)
	return err
}

// Answer takes what the register answered.
func (n *noting) Answer(now protocol.Time, a *lease.Answer, out *protocol.Output) error {
	err := n.Machine.Answer(now, a, out)
	n.noteAll(out)
	return err
}

// Request notes a term before the register is asked for it.
func (n *noting) Request() lease.Request {
	r := n.Machine.Request()
	if w := &r.Write.Record; r.Kind == lease.WriteRecord && w.Root == n.self && !slices.Contains(n.file.terms, w.Term) {
		n.file.terms = append(n.file.terms, w.Term)
	}
	return r
}

func (n *noting) noteAll(out *protocol.Output) {
	n.note(out, n.MembersKnown())
	f := n.file
	f.all = slices.DeleteFunc(f.all, func(m protocol.Node) bool { return slices.Contains(out.Ended, m) })
	f.all = append(f.all, out.Begun...)
	f.settled = f.settled || n.Settled()
}

// algorithm is PADME, whose members keep what they hold where they do.
func (o *options) algorithm() protocol.Algorithm {
	a := padme.Algorithm
	if o.remembers() {
		a.New = func(cfg protocol.Config) (protocol.Machine, error) {
			f := o.notesOf(cfg.Self.ID)
			cfg.Former, cfg.Held = f.session, slices.Clone(f.held)
			m, err := padme.New(cfg)
			return &keeping{m, cfg.Self, f, len(f.held) > 0}, err
		}
	}
	return a
}

// notesOf are the notes of a participant, over all its processes.
func (o *options) notesOf(id string) *notes {
	if o.files[id] == nil {
		o.files[id] = &notes{}
	}
	return o.files[id]
}
