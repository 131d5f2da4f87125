package simulation

import (
	"slices"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// memberFile is who may hold by the word of a root, as package register/local keeps it:
// it outlives the process.
type memberFile struct {
	all     []protocol.Node
	settled bool
}

func (f *memberFile) members() (all []protocol.Node, known bool) {
	if !f.settled {
		return nil, false
	}
	return slices.Clone(f.all), true
}

// noting is a candidate that notes its members before anything is sent to them.
type noting struct {
	*candidate.Machine
	file *memberFile
}

// Step implements [protocol.Machine].
func (n *noting) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
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
	f.all = slices.DeleteFunc(f.all, func(m protocol.Node) bool { return slices.Contains(out.Ended, m) })
	f.all = append(f.all, out.Begun...)
	f.settled = f.settled || n.Settled()
}
