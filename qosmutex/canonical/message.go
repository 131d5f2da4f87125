package canonical

import "padme/qosmutex/protocol"

// AppendMessage appends a message in flight.
func AppendMessage(dst []byte, now protocol.Time, names *Names, msg *protocol.Message) []byte {
	w := Writer{B: dst, Now: now, Names: names}
	w.Message(msg)
	return w.B
}

// Message appends a message, as far as its receiver reads it.
func (w *Writer) Message(msg *protocol.Message) {
	w.Uint(uint64(msg.Kind), uint64(msg.Flags), msg.Link, uint64(msg.Reason), uint64(msg.Verdict), uint64(msg.Hops), msg.Session, msg.Register)
	w.Node(msg.From)
	w.Node(msg.To)
	w.Epoch(msg.Epoch)
	w.Node(msg.Root)
	if w.Is(msg.Seq != 0) {
		w.OnLink(msg.From, msg.To, msg.Link, msg.Seq)
	}
	w.OnLink(msg.To, msg.From, msg.Link, msg.Ack)
	w.ID(msg.ID)
	w.Named(SortClock, msg.Clock)
	w.Int(msg.Priority)
	w.Text(msg.Resource)
	w.Fences(msg.Fences)
	w.Grant(msg.Grant)
	w.byKind(msg)
	w.Int(int64(msg.TTL))
	w.Int(int64(msg.Within))
	w.Int(int64(msg.Hold))
	if w.Is(msg.Until != 0) {
		w.Left(msg.Until)
	}
	w.Settings(&msg.Settings)
	w.Nodes(msg.Path)
	w.Entries(msg.Entries)
	w.tokens(msg.Tokens)
	w.Nodes(msg.Sessions)
	w.Schedule(msg.Schedule)
}

// byKind appends what matters in messages of some kinds only.
func (w *Writer) byKind(msg *protocol.Message) {
	switch msg.Kind {
	case protocol.KindBeacon, protocol.KindAccept:
		w.Names.NoteIn(SortBeacon, msg.Epoch.Number, msg.Number)
		w.Uint(uint64(msg.Depth), uint64(msg.Members))
	case protocol.KindOffer:
		w.Uint(uint64(msg.Depth))
		w.Node(msg.Least)
		w.Int(msg.LeastP)
	case protocol.KindMove:
		w.Node(msg.MoveTo)
	case protocol.KindReport:
		w.Node(msg.PassedTo)
	case protocol.KindJoin:
		w.Node(msg.Parent)
	case protocol.KindBeat:
		w.Uint(msg.Attempt)
		w.Node(msg.Parent)
		w.Age(msg.Sent, protocol.Never)
	case protocol.KindGoodbye:
		w.Node(msg.Ended)
	case protocol.KindBeatAck:
		w.Uint(msg.Attempt, uint64(msg.Rank))
		w.Renewal(msg.Renewal)
		w.Int(int64(msg.Valid))
		w.Age(msg.Sent, msg.TTL) // then it is too late
	}
}

func (w *Writer) tokens(tokens []protocol.TokenState) {
	w.Uint(uint64(len(tokens)))
	for i := range tokens {
		t := &tokens[i]
		w.Text(t.Resource)
		w.Grant(t.Grant)
		w.Named(SortFence, t.Fence)
		w.ID(t.Target)
	}
}
