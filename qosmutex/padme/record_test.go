package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// record is the record of the topic as an oracle: what package lease does with a
// register, in one place and in no time. Its root renews the lease with each of its
// heartbeats that comes back to it; when the lease is over, the most important
// candidate takes over.
type record struct {
	term     uint64
	root     *node // whose lease it is; nil: nobody's yet
	named    bool  // root is to be told
	renewed  protocol.Time
	renewal  protocol.Renewal
	ceiling  uint64
	settings protocol.Settings
	still    bool            // nobody takes over by itself
	members  []protocol.Node // known to the next root; nil: not known
	held     []protocol.Held // that the next root goes on with
	prompt   bool            // whom the root names its successor reads so before it hears of it
}

const fenceBlock = 1 << 16

// leaseFor is how long a root acts on a renewal, by its own clock.
func (w *world) leaseFor() protocol.Duration { return w.timing.TTL / 2 }

// takeoverAt is when the next candidate may take over.
func (w *world) takeoverAt() protocol.Time {
	if w.record.root == nil || w.record.still {
		return protocol.Never
	}
	t := w.timing
	t.TTL = w.leaseFor()
	return w.record.renewed + t.Grace()
}

// write has the record name n in a new term, with a fresh block of fences.
func (w *world) write(n *node) {
	r := &w.record
	r.term++
	r.renewal.Counter++
	r.ceiling += fenceBlock
	r.root, r.named = n, true
}

// tell tells the root of the record that it is, as if it had read and renewed it.
func (w *world) tell(heard protocol.Time) {
	r := &w.record
	n := r.root
	if !r.named || n.crashed || n.offline || n.paused {
		return
	}
	r.named, r.renewed = false, w.now
	lease := w.lease(n)
	lease.Heard, lease.Members, lease.Known = heard, r.members, r.members != nil
	lease.Held = r.held
	r.members, r.held = nil, nil
	if err := w.step(n, &protocol.Input{Kind: protocol.Appointed, Lease: lease}); err != nil {
		w.log("%s is not appointed: %v", n.name, err)
	}
}

func (w *world) lease(n *node) *protocol.Lease {
	r := &w.record
	return &protocol.Lease{
		Term: r.term, Until: w.clock(n) + w.leaseFor(), Renewed: w.clock(n), Renewal: r.renewal,
		Fences: protocol.Fences{Next: r.ceiling - fenceBlock, End: r.ceiling}, TTL: w.timing.TTL, Settings: r.settings,
	}
}

// create makes n the first root.
func (w *world) create(n *node) {
	w.record = record{settings: w.settings, ceiling: 1}
	w.record.settings.Version = 1
	w.write(n)
	age := w.timing.Grace()
	if w.fresh {
		age = 0
	}
	w.tell(w.clock(n) - age)
}

// appoint has n take over now.
func (w *world) appoint(n *node) {
	ago := protocol.Duration(float64(w.now-w.record.renewed) * (1 + n.drift))
	w.write(n)
	w.tell(w.clock(n) - ago)
}

// know has the next root know all who may hold by the word of the one before.
func (w *world) know() {
	w.record.members = []protocol.Node{}
	for _, s := range w.record.root.machine.members {
		w.record.members = append(w.record.members, s.node)
	}
}

// resume has the next root, n, be told of what its process of before held. A resource that
// it did not hold is one that was noted wrongly.
func (w *world) resume(n *node, resources []string) {
	for _, name := range resources {
		i := slices.IndexFunc(n.noted, func(h protocol.Held) bool { return h.Resource == name })
		if i < 0 {
			w.nextRef++
			n.noted, i = append(n.noted, protocol.Held{Ref: w.nextRef, Resource: name, Fence: 1}), len(n.noted)
		}
		w.record.held = append(w.record.held, n.noted[i])
	}
}

// renew goes on with the lease of n, if it is the root.
func (w *world) renew(n *node) {
	r := &w.record
	if r.root != n || r.named || n.offline {
		return
	}
	r.renewed = w.now
	r.renewal.Counter++
	_ = w.step(n, &protocol.Input{Kind: protocol.Extended, Lease: w.lease(n)})
}

// succeed changes the root from n to the participant that it wishes for. The record
// is written, and all know at once.
func (w *world) succeed(n *node, to protocol.Node) {
	next := w.nodes[to.ID]
	if w.record.root != n || next == nil || next.crashed || next.machine.self != to || n.offline {
		return
	}
	if w.step(n, &protocol.Input{Kind: protocol.Yield, Node: to}) != nil {
		return
	}
	w.write(next)
	_ = w.step(n, &protocol.Input{Kind: protocol.Succeeded, Lease: &protocol.Lease{Term: w.record.term}, Node: to})
	if w.record.prompt {
		w.tell(w.clock(next))
	}
}

// takeOver has the most important candidate take over from a root whose lease is over.
func (w *world) takeOver() {
	if w.now < w.takeoverAt() {
		return
	}
	if r := &w.record; r.named { // it comes to it late
		if w.tell(w.clock(r.root)); !r.named {
			return
		}
	}
	var best *node
	for _, name := range w.order {
		n := w.nodes[name]
		if n.crashed || n.offline || n.paused || !n.machine.candidate || n.machine.departing || n.machine.role == protocol.Departed {
			continue
		}
		if best == nil || comparePlace(n.machine.priority, n.machine.self, best.machine.priority, best.machine.self) < 0 {
			best = n
		}
	}
	if best != nil {
		w.appoint(best)
	}
}

// followRecord does what an output asks of the record.
func (w *world) followRecord(n *node) {
	echo, to, proposed, summoned := n.out.Echo, n.out.Successor, n.out.Proposed, n.out.Summoned
	switch lapsed := w.record.root == n && !w.record.named && n.machine.role != protocol.Root; {
	case echo == 0 || w.clock(n)-echo >= w.leaseFor():
	case !lapsed:
		w.renew(n)
	case !n.offline && !n.machine.departing && n.machine.role != protocol.Departed: // the record still names it
		w.appoint(n)
	}
	if summoned && w.record.root == n {
		w.tell(w.clock(n))
	}
	if proposed != nil && w.record.root == n && !n.offline {
		w.record.settings.Apply(proposed)
		_ = w.step(n, &protocol.Input{Kind: protocol.Configure, Lease: w.lease(n)})
	}
	if !to.IsZero() {
		w.succeed(n, to)
	}
}

// dismissed has a former root hear that the record names another.
func (w *world) dismiss(n *node) error {
	return w.step(n, &protocol.Input{Kind: protocol.Dismissed})
}

// roots lists who may act as the root now.
func (w *world) roots() []string {
	return slices.DeleteFunc(slices.Clone(w.order), func(name string) bool {
		n := w.nodes[name]
		return !n.machine.acting() || n.crashed || w.clock(n) >= n.machine.authority.until
	})
}
