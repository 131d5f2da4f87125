package lease_test

import (
	"encoding/binary"
	"fmt"

	"padme/qosmutex/canonical"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// form appends the canonical form of the world: what has the same form does the same.
func (w *model) form(b []byte, names *canonical.Names) []byte {
	for s := range names.Slack {
		names.Slack[s] = 1 // numbers are only compared with their like
	}
	names.Reset()
	return names.AppendNames(w.write(b[:0], names))
}

func (w *model) write(b []byte, names *canonical.Names) []byte {
	b = w.reg.entry.AppendState(b, names)
	if w.budget[modelForget] > 0 || w.cfg.local {
		b = w.reg.synced.AppendState(b, names)
	}
	b = append(b, byte(w.shut), byte(w.watch.renewed))
	names.Note(canonical.SortTerm, w.watch.term)
	names.Note(canonical.SortFence, w.watch.reach)
	for k := modelFaults; k < modelKinds; k++ {
		b = append(b, byte(w.budget[k]))
	}
	for i := range w.cfg.rates {
		b = w.nodes[i].write(b, names)
	}
	for i := range w.ghosts {
		b = appendWrite(b, &w.ghosts[i].Write, names)
	}
	return b
}

func (n *modelNode) write(b []byte, names *canonical.Names) []byte {
	flags := byte(0)
	for i, f := range []bool{n.m != nil, n.paused, n.cut, n.gone, n.act, n.op.served} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags, byte(n.self.Incarnation), byte(n.op.kind), byte(n.op.age), byte(n.op.said))
	v := lease.Entry{Version: n.version}
	b = v.AppendState(b, names)
	names.Note(canonical.SortTerm, n.term)
	names.Note(canonical.SortTerm, n.heldIn)
	if n.m == nil {
		return b
	}
	b = n.m.AppendState(b, n.clock, names)
	if n.act {
		b = binary.AppendVarint(b, int64(n.until-n.clock))
	}
	if n.op.kind == lease.WriteRecord {
		b = appendWrite(b, &n.op.write, names)
	}
	if n.op.served {
		b = n.op.entry.AppendState(b, names)
	}
	return b
}

func appendWrite(b []byte, w *lease.Write, names *canonical.Names) []byte {
	v := lease.Entry{Version: w.Old, Record: w.Record}
	b = v.AppendState(b, names)
	names.Note(canonical.SortNonce, w.Nonce)
	return b
}

// tell writes a step of a trace.
func (w *model) tell(i int, in *lease.Input, out *lease.Output, err error) {
	n := &w.nodes[i]
	s := fmt.Sprintf("    %s at %dms", name(n.self), n.clock/ms)
	if a := in.Answer; a != nil {
		s += fmt.Sprintf(": answer: outcome %d version %v", a.Outcome, a.Entry.Version)
	}
	for _, t := range out.Tell {
		switch t.Kind {
		case protocol.Dismissed:
			s += "; dismissed"
		case protocol.Appointed:
			s += fmt.Sprintf("; appointed in term %d until %dms", t.Lease.Term, t.Lease.Until/ms)
		case protocol.Extended:
			s += fmt.Sprintf("; extended until %dms", t.Lease.Until/ms)
		}
	}
	if r := out.Request; r.Kind == lease.ReadRecord {
		s += "; reads"
	} else if r.Kind == lease.WriteRecord {
		s += fmt.Sprintf("; writes term %d root %s on %v nonce %x", r.Write.Record.Term, name(r.Write.Record.Root), r.Write.Old, r.Write.Nonce)
	}
	if err != nil {
		s += fmt.Sprintf("; error %v", err)
	}
	w.log.WriteString(s + "\n")
}
