package simulation

import (
	"slices"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// memberFile is who may hold by the word of a root, and what the root itself holds, as
// package register/local keeps it: it outlives the process.
type memberFile struct {
	all     []protocol.Node
	settled bool
	held    []protocol.Held
	term    uint64 // in which the process is the root; 0: it is not
}

func (f *memberFile) members() (all []protocol.Node, known bool) {
	if !f.settled {
		return nil, false
	}
	return slices.Clone(f.all), true
}

// noting is a candidate that notes its members before anything is sent to them, and what
// it is inside of, as package qosmutex does.
type noting struct {
	*candidate.Machine
	file     *memberFile
	resuming bool // it is not known yet which holds of the process before go on
}

// Keeps lists what outlives the process.
func (n *noting) Keeps() []protocol.Held { return n.file.held }

// Step implements [protocol.Machine].
func (n *noting) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Leave {
		n.file.leave(in.Ref)
	}
	err := n.Machine.Step(now, in, out)
	n.note(out)
	return err
}

// Answer takes what the register answered.
func (n *noting) Answer(now protocol.Time, a *lease.Answer, out *protocol.Output) error {
	err := n.Machine.Answer(now, a, out)
	n.note(out)
	return err
}

func (n *noting) note(out *protocol.Output) {
	f := n.file
	for i := range out.Losses {
		f.leave(out.Losses[i].Ref)
	}
	n.noteHolds(out)
	f.all = slices.DeleteFunc(f.all, func(m protocol.Node) bool { return slices.Contains(out.Ended, m) })
	f.all = append(f.all, out.Begun...)
	f.settled = f.settled || n.Settled()
}

func (f *memberFile) leave(ref uint64) {
	f.held = slices.DeleteFunc(f.held, func(h protocol.Held) bool { return h.Ref == ref })
}

func (n *noting) noteHolds(out *protocol.Output) {
	f := n.file
	role, epoch := n.Term()
	if n.resuming {
		if role != protocol.Root && n.ValidUntil() == 0 {
			return
		}
		n.resuming = false
		before := len(f.held)
		f.held = slices.DeleteFunc(f.held, func(h protocol.Held) bool {
			return !slices.ContainsFunc(out.Grants, func(g protocol.Granted) bool { return g.Ref == h.Ref })
		})
		f.settled = f.settled && len(f.held) == before
	}
	if f.term = 0; role == protocol.Root {
		f.term = epoch.Number
	}
	for i := range out.Grants {
		g := &out.Grants[i]
		f.leave(g.Ref)
		f.held = append(f.held, protocol.Held{Ref: g.Ref, Resource: g.Resource, Fence: g.Fence, Priority: g.Priority})
	}
}
