package algorithms_test

import (
	"math"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// diary keeps the trace of a run for [reckoning], which measures it again without
// any of the simulator's bookkeeping. The trace does not say which of a
// participant's requests a line is about; that comes from a tap on its machine.
type diary struct {
	lines   []line
	stories []*story
	byRef   map[uint64]*story
	unnamed int      // the line that is about the request of the Step to come
	answers []uint64 // refs of what the last Step answered, in the order of the lines
}

// line is what is kept of a sim.Record.
type line struct {
	at       protocol.Time
	event    sim.Event
	node     string
	kind     protocol.Kind
	resource string
	priority int64
	fence    uint64
	note     string
}

// story is one request. Places are those of lines; never: it did not happen.
type story struct {
	ref                   uint64
	node, resource, at    string // at: what it is inside of, which differs for Any
	fixed                 bool
	within, hold          protocol.Duration
	asked, entered, ended int
}

const never = math.MaxInt

func newDiary() *diary { return &diary{byRef: map[uint64]*story{}, unnamed: never} }

// see is a Scenario.Trace.
func (d *diary) see(r *sim.Record) {
	i := len(d.lines)
	d.lines = append(d.lines, line{r.At, r.Event, r.Node, r.Kind, r.Resource, r.Priority, r.Fence, r.Note})
	switch r.Event {
	case sim.Requested, sim.Left, sim.Withdrawn:
		d.unnamed = i
	case sim.Entered:
		st := d.answer()
		st.entered, st.at = i, r.Resource
	case sim.HoldLost, sim.Denied:
		if st := d.answer(); st.ended == never { // else it was leaving
			st.ended = i
		}
	case sim.Crashed:
		for _, st := range d.stories {
			if st.node == r.Node && st.ended == never {
				st.ended = i
			}
		}
	}
}

func (d *diary) answer() *story {
	st := d.byRef[d.answers[0]]
	d.answers = d.answers[1:]
	return st
}

// stepped hears what went into a machine and what came out of it.
func (d *diary) stepped(in *protocol.Input, out *protocol.Output) {
	switch in.Kind {
	case protocol.Acquire:
		l := &d.lines[d.unnamed]
		st := &story{in.Ref, l.node, l.resource, "", in.Fixed, in.Within, in.Hold, d.unnamed, never, never}
		d.stories = append(d.stories, st)
		d.byRef[in.Ref] = st
	case protocol.Leave, protocol.Withdraw:
		d.byRef[in.Ref].ended = d.unnamed
	}
	d.answers = nil
	for i := range out.Losses {
		d.answers = append(d.answers, out.Losses[i].Ref)
	}
	for i := range out.Grants {
		d.answers = append(d.answers, out.Grants[i].Ref)
	}
	for i := range out.Denials {
		if in.Kind == protocol.Withdraw && in.Ref == out.Denials[i].Ref {
			continue // the two cross: the application has given up before
		}
		d.answers = append(d.answers, out.Denials[i].Ref)
	}
}

// waits and inside say what the state of a request is when the line at place i is
// written.
func (st *story) waits(i int) bool  { return st.asked < i && min(st.entered, st.ended) > i }
func (st *story) inside(i int) bool { return st.entered < i && st.ended > i }

// priority is what a request asks with at line i.
func (d *diary) priority(st *story, i int) int64 {
	p := d.lines[st.asked].priority
	for j := st.asked; j < min(i, st.entered, len(d.lines)); j++ {
		if l := &d.lines[j]; l.event == sim.Reprioritized && l.node == st.node && !st.fixed {
			p = l.priority
		}
	}
	return p
}

// tap puts a tap on every machine of a run.
func (d *diary) tap(a *anything) {
	a.wrap(func(m protocol.Machine) protocol.Machine { return tap{m, d} })
}

type tap struct {
	protocol.Machine
	diary *diary
}

func (m tap) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	err := m.Machine.Step(now, in, out)
	m.diary.stepped(in, out)
	return err
}

// ValidUntil and CheckInvariants are those of the machine: all have them.
func (m tap) ValidUntil() protocol.Time {
	return m.Machine.(interface{ ValidUntil() protocol.Time }).ValidUntil()
}

func (m tap) CheckInvariants() error {
	return m.Machine.(interface{ CheckInvariants() error }).CheckInvariants()
}
