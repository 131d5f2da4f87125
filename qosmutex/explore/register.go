package explore

import (
	"encoding/binary"
	"slices"

	"padme/qosmutex/candidate"
	"padme/qosmutex/canonical"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// register is a compare-and-set of one key, which does what it is asked at once.
type register struct {
	entry, synced lease.Entry
	shut          protocol.Time // it makes no write before
	ghosts        []lease.Write // given up by who sent them, and not made yet
}

func (r *register) appendState(b []byte, now protocol.Time, names *canonical.Names) []byte {
	if r.entry.Version.Counter == 0 {
		return b
	}
	b = r.entry.AppendState(b, names)
	b = r.synced.AppendState(b, names)
	b = binary.AppendVarint(b, int64(max(0, r.shut-now)))
	for i := range r.ghosts {
		g := &r.ghosts[i]
		b = (&lease.Entry{Version: g.Old, Record: g.Record}).AppendState(b, names)
		names.Note(canonical.SortNonce, g.Nonce)
	}
	return append(b, byte(len(r.ghosts)))
}

// serve does what is asked.
func (r *register) serve(now protocol.Time, kind lease.RequestKind, w *lease.Write) (lease.Outcome, lease.Entry) {
	r.entry.Version.Domain = [16]byte{1}
	made := lease.Version{Domain: r.entry.Version.Domain, Counter: w.Old.Counter + 1, Nonce: w.Nonce}
	switch {
	case kind == lease.ReadRecord:
		return lease.Done, r.entry
	case now < r.shut:
		return lease.Unknown, lease.Entry{}
	case r.entry.Version == made:
		return lease.Done, lease.Entry{Version: made}
	case r.entry.Version != w.Old:
		return lease.Conflict, r.entry
	}
	r.entry = lease.Entry{Version: made, Record: w.Record}
	if !w.Renewal {
		r.synced = r.entry
	}
	return lease.Done, lease.Entry{Version: made}
}

// goOn lets a candidate say to itself what it has to say, and ask the register.
func (w *world) goOn(i int) {
	n := &w.nodes[i]
	m, ok := n.machine.(*candidate.Machine)
	if !ok || w.failure != nil || n.is(crashed) {
		return
	}
	if w.out.WakeAt <= w.now {
		w.step(i, &protocol.Input{Kind: protocol.Tick})
		return
	}
	r := m.Request()
	if r.Kind == lease.NoRequest {
		return
	}
	write := r.Kind == lease.WriteRecord
	if write && n.is(late) {
		n.flags = n.flags&^late | owed
		w.log("  %s writes term %d, which is under way", letter(i), r.Write.Record.Term)
		w.register.ghosts = append(slices.Clip(w.register.ghosts), r.Write)
		return
	}
	a := &lease.Answer{Age: protocol.MaxTTL}
	a.Outcome, a.Entry = w.register.serve(w.now, r.Kind, &r.Write)
	if write && !r.Write.Renewal {
		w.log("  %s writes term %d, root %q: outcome %d", letter(i), r.Write.Record.Term, r.Write.Record.Root.ID, a.Outcome)
	}
	if n.is(unheard) || a.Outcome == lease.Unknown {
		if n.is(unheard) {
			w.log("  the answer is lost")
		}
		n.flags = n.flags&^unheard | owed
		return
	}
	w.answer(i, a)
}

func (w *world) answer(i int, a *lease.Answer) {
	if err := w.nodes[i].machine.(*candidate.Machine).Answer(w.now, a, w.out); err != nil {
		w.fail("%s: %v", letter(i), err)
	}
	w.follow(i)
}

// giveUp tells participant i that it hears nothing of what it asked.
func (w *world) giveUp(i int) {
	n := &w.nodes[i]
	if !n.is(owed) {
		return
	}
	if n.flags &^= owed; !n.own {
		n.machine, n.own = twin(n.machine), true
	}
	w.answer(i, &lease.Answer{Outcome: lease.Unknown})
}

// land has a write reach the register that was given up.
func (w *world) land() {
	g := w.register.ghosts[0]
	w.register.ghosts = w.register.ghosts[1:]
	outcome, _ := w.register.serve(w.now, lease.WriteRecord, &g)
	w.log("  a write of term %d, root %q: outcome %d", g.Record.Term, g.Record.Root.ID, outcome)
}

// forget has the register restart.
func (w *world) forget() {
	r := &w.register
	r.entry = r.synced
	r.shut = w.now + r.entry.Record.Lease + 1
}
