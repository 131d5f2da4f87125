package canonical

import (
	"encoding/binary"

	"padme/qosmutex/protocol"
)

// Writer appends values to B. Instants are written relative to Now, and no further away
// than matters; numbers that count up are left to Names.
type Writer struct {
	B     []byte
	Now   protocol.Time
	Names *Names
}

// Uint appends numbers as they are.
func (w *Writer) Uint(values ...uint64) {
	for _, v := range values {
		w.B = binary.AppendUvarint(w.B, v)
	}
}

// Int appends a number as it is.
func (w *Writer) Int(v int64) { w.B = binary.AppendVarint(w.B, v) }

// Flags appends up to 64 bits.
func (w *Writer) Flags(bits ...bool) {
	v := uint64(0)
	for i, set := range bits {
		if set {
			v |= 1 << i
		}
	}
	w.Uint(v)
}

// Is appends a bit, and returns it.
func (w *Writer) Is(bit bool) bool {
	w.Flags(bit)
	return bit
}

// Text appends a string behind its length.
func (w *Writer) Text(v string) {
	w.Uint(uint64(len(v)))
	w.B = append(w.B, v...)
}

// Left appends how long it is until t; what is past is past.
func (w *Writer) Left(t protocol.Time) {
	if t == protocol.Never {
		w.Int(-1)
		return
	}
	w.Int(int64(max(t-w.Now, 0)))
}

// Age appends how long ago t was, at most limit.
func (w *Writer) Age(t protocol.Time, limit protocol.Duration) { w.Int(int64(min(w.Now-t, limit))) }

// Named leaves a number to Names.
func (w *Writer) Named(sort Sort, v uint64) { w.Names.Note(sort, v) }

// OnLink leaves the number of a message to Names: messages of one direction of one link
// are compared with each other.
func (w *Writer) OnLink(from, to protocol.Node, link, number uint64) {
	w.Names.NoteIn(SortLink, (from.Tie()*31+to.Tie())*31+link, number)
}

// Node appends the name of a participant.
func (w *Writer) Node(n protocol.Node) {
	w.Text(n.ID)
	w.Uint(n.Incarnation)
}

// Nodes appends the names of participants.
func (w *Writer) Nodes(list []protocol.Node) {
	w.Uint(uint64(len(list)))
	for _, n := range list {
		w.Node(n)
	}
}

// Epoch appends an epoch as it is.
func (w *Writer) Epoch(e protocol.Epoch) { w.Uint(e.Number, e.Tie) }

// Grant appends the name of a grant.
func (w *Writer) Grant(g protocol.Grant) {
	w.Epoch(g.Epoch)
	w.Named(SortGrant, g.Number)
}

// ID appends the name of a request.
func (w *Writer) ID(id protocol.RequestID) {
	w.Node(id.Node)
	w.Named(SortClock, id.Clock)
}

// Fences appends a range of fences.
func (w *Writer) Fences(f protocol.Fences) {
	w.Named(SortFence, f.Next)
	w.Named(SortFence, f.End)
}

// Entries appends for which requests there were entries. A receiver reads no more.
func (w *Writer) Entries(list []protocol.Entry) {
	w.Uint(uint64(len(list)))
	for _, e := range list {
		w.ID(e.ID)
	}
}

// Schedule appends what comes next.
func (w *Writer) Schedule(list []protocol.Scheduled) {
	w.Uint(uint64(len(list)))
	for i := range list {
		s := &list[i]
		w.Named(SortGrant, s.Number)
		w.ID(s.ID)
		w.Int(s.Priority)
		w.Named(SortFence, s.Fence)
		w.Uint(s.Session)
	}
}

// Models appends models.
func (w *Writer) Models(m protocol.Models) {
	w.Uint(uint64(m.Priority), uint64(m.Request), uint64(m.Reply), uint64(m.Release))
}

// Settings appends the settings of a topic.
func (w *Writer) Settings(v *protocol.Settings) {
	w.Named(SortSettings, v.Version)
	w.Models(v.Models)
	w.Flags(v.Open)
	w.Uint(uint64(len(v.Resources)))
	for _, r := range v.Resources {
		w.Text(r)
	}
	w.Text(v.ModelsBy)
	w.Text(v.ResourcesBy)
}

// Renewal appends which renewal it is.
func (w *Writer) Renewal(r protocol.Renewal) {
	w.Named(SortVersion, r.Counter)
	w.Named(SortNonce, r.Nonce)
}

// Record appends the record of a topic.
func (w *Writer) Record(r *protocol.Record) {
	w.Named(SortTerm, r.Term)
	w.Node(r.Root)
	w.Text(r.Place)
	w.Int(int64(r.Lease))
	w.Int(int64(r.TTL))
	w.Named(SortFence, r.Ceiling)
	w.Settings(&r.Settings)
}
