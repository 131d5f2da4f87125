package explore

import (
	"encoding/binary"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// record is the record of the topic as an oracle: what package lease does with a
// register, in one place and in no time. Its root renews the lease with each of its
// heartbeats that comes back to it. When the lease is over, the most important
// participant that can takes over.
type record struct {
	term    uint64
	root    int8  // whose lease it is
	run     uint8 // of that participant
	named   bool  // it has not heard of it
	renewed protocol.Time
	ceiling uint64
}

const (
	leaseTime  = timeToLive / 2
	fenceBlock = 1 << 16
)

func (r *record) appendState(b []byte, now protocol.Time, names *canonical.Names) []byte {
	if r.term == 0 {
		return b
	}
	b = append(b, byte(r.root), r.run, 0)
	if r.named {
		b[len(b)-1] = 1
	}
	b = binary.AppendUvarint(b, r.term)
	b = binary.AppendVarint(b, int64(min(now-r.renewed, 2*timeToLive)))
	names.Note(canonical.SortFence, r.ceiling)
	return b
}

// write has the record name participant i in a new term, with more fences.
func (w *world) write(i int) {
	r := &w.record
	r.term++
	r.ceiling += fenceBlock
	r.root, r.run, r.named = int8(i), w.nodes[i].runs, true
}

func (w *world) lease() *protocol.Lease {
	r := &w.record
	return &protocol.Lease{
		Term: r.term, Until: w.now + leaseTime, Renewed: w.now, Renewal: protocol.Renewal{Counter: 1, Nonce: 1},
		Fences: protocol.Fences{Next: r.ceiling - fenceBlock, End: r.ceiling}, TTL: timeToLive,
		Settings: protocol.Settings{Version: 1, Models: w.cfg.Models, Resources: []string{resource}},
	}
}

// create makes A the first root.
func (w *world) create() {
	w.record.ceiling = 1
	w.write(0)
	w.record.renewed = w.now
	w.tell(protocol.Never)
}

// tell tells the root of the record that it is. heard is when the last renewal before
// was.
func (w *world) tell(heard protocol.Time) {
	r := &w.record
	l := w.lease()
	l.Heard = heard
	r.named, r.renewed = false, w.now
	w.log("  the record names %s in term %d", letter(int(r.root)), r.term)
	w.step(int(r.root), &protocol.Input{Kind: protocol.Appointed, Lease: l})
}

// ready reports whether participant i runs, reaches the register and stays.
func (w *world) ready(i int) bool {
	return w.able(i) && !w.nodes[i].is(crashed|offline|paused|departed)
}

// appoint has the root of the record hear of it.
func (w *world) appoint() {
	if r := &w.record; r.named && w.ready(int(r.root)) && w.nodes[r.root].runs == r.run {
		w.tell(w.now) // whom it succeeds has renewed a moment ago at most
	}
}

// obey does what the output of participant i asks of the record.
func (w *world) obey(i int) {
	r, out := &w.record, w.out
	if w.failure != nil || int(r.root) != i || r.run != w.nodes[i].runs || r.term == 0 || w.nodes[i].is(offline|crashed) {
		return
	}
	echo, to, summoned := out.Echo, out.Successor, out.Summoned
	if echo != 0 && !r.named {
		if w.roleOf(i) == protocol.Root {
			r.renewed = w.now
			w.step(i, &protocol.Input{Kind: protocol.Extended, Lease: w.lease()})
		} else if !w.nodes[i].is(departed) { // the record still names it
			w.write(i)
			w.tell(r.renewed)
		}
	}
	if summoned {
		w.appoint()
	}
	if !to.IsZero() && !r.named {
		w.succeed(i, int(to.ID[0]-'A'))
	}
}

// succeed changes the root from i to the participant that it proposes.
func (w *world) succeed(i, next int) {
	if !w.able(next) || w.nodes[next].is(crashed) {
		return
	}
	w.step(i, &protocol.Input{Kind: protocol.Yield, Node: w.self(next)})
	if w.failure != nil {
		return
	}
	w.write(next)
	w.log("  the record names %s in term %d, which has not heard of it", letter(next), w.record.term)
	w.step(i, &protocol.Input{Kind: protocol.Succeeded, Lease: &protocol.Lease{Term: w.record.term}, Node: w.self(next)})
}

// takeOver has somebody else take over when the lease is over.
func (w *world) takeOver() {
	r := &w.record
	if r.term == 0 || w.now <= r.renewed+leaseTime || w.failure != nil {
		return
	}
	if w.appoint(); !r.named && w.now <= r.renewed+leaseTime {
		return
	}
	best := -1
	var priority int64
	for i := range w.nodes {
		if !w.ready(i) {
			continue
		}
		if p := w.nodes[i].machine.Status().Priority; best < 0 || p < priority {
			best, priority = i, p
		}
	}
	if best >= 0 {
		heard := r.renewed
		w.write(best)
		w.tell(heard)
	}
}
