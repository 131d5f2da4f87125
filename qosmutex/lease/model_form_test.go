package lease_test

import (
	"encoding/binary"
	"fmt"
	"slices"

	"padme/qosmutex/lease"
)

// names ranks the numbers of a state: they are only compared with their like.
type names struct {
	all     [4][]uint64
	ranking bool
}

func (t *names) name(s lease.Sort, v uint64) uint64 {
	if v == 0 {
		return 0
	}
	i, found := slices.BinarySearch(t.all[s], v)
	if !found && !t.ranking {
		t.all[s] = slices.Insert(t.all[s], i, v)
	}
	return uint64(i + 1)
}

// first names nonces, which have no order, in the order in which they are met.
func (t *names) first(s lease.Sort, v uint64) uint64 {
	if s != lease.SortNonce {
		return t.name(s, v)
	}
	if v == 0 {
		return 0
	}
	i := slices.Index(t.all[s], v)
	if i < 0 {
		t.all[s] = append(t.all[s], v)
		i = len(t.all[s]) - 1
	}
	return uint64(i + 1)
}

// form appends the canonical form of the world: what has the same form does the same.
func (w *model) form(b []byte, t *names) []byte {
	for i := range t.all {
		t.all[i] = t.all[i][:0]
	}
	t.ranking = false
	b = w.write(b[:0], t)
	t.ranking, t.all[lease.SortNonce] = true, t.all[lease.SortNonce][:0]
	return w.write(b[:0], t)
}

func (w *model) write(b []byte, t *names) []byte {
	name := lease.Namer(t.first)
	b = lease.AppendRecordState(b, &w.reg.entry, name)
	if w.budget[modelForget] > 0 || w.cfg.local {
		b = lease.AppendRecordState(b, &w.reg.synced, name)
	}
	b = append(b, byte(w.shut), byte(w.watch.renewed))
	b = binary.AppendUvarint(b, name(lease.SortTerm, w.watch.term))
	b = binary.AppendUvarint(b, name(lease.SortFence, w.watch.reach))
	for k := modelFaults; k < modelKinds; k++ {
		b = append(b, byte(w.budget[k]))
	}
	for i := range w.cfg.rates {
		b = w.nodes[i].write(b, name)
	}
	for i := range w.ghosts {
		b = appendWrite(b, &w.ghosts[i].Write, name)
	}
	return b
}

func (n *modelNode) write(b []byte, name lease.Namer) []byte {
	flags := byte(0)
	for i, f := range []bool{n.m != nil, n.paused, n.cut, n.gone, n.act, n.op.served} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags, byte(n.self.Incarnation), byte(n.op.kind), byte(n.op.age), byte(n.op.said))
	v := lease.Entry{Version: n.version}
	b = lease.AppendRecordState(b, &v, name)
	b = binary.AppendUvarint(b, name(lease.SortTerm, n.term))
	if n.m == nil {
		return b
	}
	b = n.m.AppendState(b, n.clock, name)
	if n.act {
		b = binary.AppendVarint(b, int64(n.until-n.clock))
	}
	if n.op.kind == lease.WriteRecord {
		b = appendWrite(b, &n.op.write, name)
	}
	if n.op.served {
		b = lease.AppendRecordState(b, &n.op.entry, name)
	}
	return b
}

func appendWrite(b []byte, w *lease.Write, name lease.Namer) []byte {
	v := lease.Entry{Version: w.Old, Record: w.Record}
	b = lease.AppendRecordState(b, &v, name)
	return binary.AppendUvarint(b, name(lease.SortNonce, w.Nonce))
}

// tell writes a step of a trace.
func (w *model) tell(i int, in *lease.Input, out *lease.Output, err error) {
	n := &w.nodes[i]
	s := fmt.Sprintf("    %s at %dms: input %d", name(n.self), n.clock/ms, in.Kind)
	if in.Kind == lease.ReadDone || in.Kind == lease.WriteDone {
		s += fmt.Sprintf(" outcome %d version %v", in.Outcome, in.Entry.Version)
	}
	if out.Dismissed {
		s += "; dismissed"
	}
	if r := out.Request; r.Kind == lease.ReadRecord {
		s += "; reads"
	} else if r.Kind == lease.WriteRecord {
		s += fmt.Sprintf("; writes term %d root %s on %v nonce %x", r.Write.Record.Term, name(r.Write.Record.Root), r.Write.Old, r.Write.Nonce)
	}
	if a := out.Appointed; a != nil {
		s += fmt.Sprintf("; appointed in term %d until %dms", a.Record.Term, a.Until/ms)
	}
	if e := out.Extended; e != nil {
		s += fmt.Sprintf("; extended until %dms", e.Until/ms)
	}
	if err != nil {
		s += fmt.Sprintf("; error %v", err)
	}
	w.log.WriteString(s + "\n")
}
