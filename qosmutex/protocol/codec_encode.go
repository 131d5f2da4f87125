package protocol

import (
	"fmt"

	"padme/qosmutex/internal/pack"
)

// AppendMessage appends the encoded form of m to dst and returns the extended
// slice. It allocates only when dst is too small, and may be called from any
// number of goroutines. Fields that m's kind does not carry are left out. It
// panics when m.Kind is not valid; whether the names and lists of m are within
// the limits of this package is the caller's business.
func AppendMessage(dst []byte, m *Message) []byte {
	if !m.Kind.Valid() {
		panic(fmt.Sprintf("protocol: message of unknown kind %d", m.Kind))
	}
	dst = pack.AppendArray(dst, width(m))
	dst = append(dst, Version, byte(m.Kind)) // both below 128: positive fixints
	dst = pack.AppendUint(dst, uint64(m.Flags))
	dst = appendNode(dst, m.From)
	dst = appendNode(dst, m.To)
	dst = appendEpoch(dst, m.Epoch)
	dst = pack.AppendUint(dst, m.Link)
	dst = pack.AppendUint(dst, m.Seq)
	dst = pack.AppendUint(dst, m.Ack)
	dst = pack.AppendUint(dst, m.Clock)
	for _, f := range carried[m.Kind] {
		dst = appendField(dst, f, m)
	}
	return dst
}

func appendField(dst []byte, f field, m *Message) []byte {
	switch f {
	case fieldRoot:
		return appendNode(dst, m.Root)
	case fieldID:
		return appendRequestID(dst, m.ID)
	case fieldPriority:
		return pack.AppendInt(dst, m.Priority)
	case fieldResource:
		return pack.AppendString(dst, m.Resource)
	case fieldHops:
		return pack.AppendUint(dst, uint64(m.Hops))
	case fieldHidden:
		return pack.AppendUint(dst, uint64(m.Hidden))
	case fieldDepth:
		return pack.AppendUint(dst, uint64(m.Depth))
	case fieldMembers:
		return pack.AppendUint(dst, uint64(m.Members))
	case fieldGrant:
		return appendGrant(dst, m.Grant)
	case fieldFences:
		return pack.AppendUint(pack.AppendUint(dst, m.Fences.Next), m.Fences.End)
	case fieldSession:
		return pack.AppendUint(dst, m.Session)
	case fieldSent:
		return pack.AppendInt(dst, int64(m.Sent))
	case fieldNumber:
		return pack.AppendUint(dst, m.Number)
	case fieldTTL:
		return pack.AppendInt(dst, int64(m.TTL))
	case fieldParent:
		return appendNode(dst, m.Parent)
	case fieldMoveTo:
		return appendNode(dst, m.MoveTo)
	case fieldLeast:
		return appendNode(dst, m.Least)
	case fieldLeastP:
		return pack.AppendInt(dst, m.LeastP)
	case fieldPassedTo:
		return appendNode(dst, m.PassedTo)
	case fieldReason:
		return pack.AppendUint(dst, uint64(m.Reason))
	case fieldVerdict:
		return pack.AppendUint(dst, uint64(m.Verdict))
	case fieldSettings:
		return appendSettings(dst, &m.Settings)
	case fieldPath:
		return appendNodes(dst, m.Path)
	case fieldEntries:
		return appendEntries(dst, m.Entries)
	case fieldTokens:
		return appendTokens(dst, m.Tokens)
	case fieldSessions:
		return appendNodes(dst, m.Sessions)
	case fieldWithin:
		return pack.AppendInt(dst, int64(m.Within))
	case fieldHold:
		return pack.AppendInt(dst, int64(m.Hold))
	case fieldWishes:
		return appendWishes(dst, m.Wishes)
	case fieldAttempt:
		return pack.AppendUint(dst, m.Attempt)
	case fieldValid:
		return pack.AppendInt(dst, int64(m.Valid))
	case fieldRenewal:
		return pack.AppendUint(pack.AppendUint(dst, m.Renewal.Counter), m.Renewal.Nonce)
	case fieldRank:
		return pack.AppendUint(dst, uint64(m.Rank))
	case fieldRegister:
		return pack.AppendUint(dst, m.Register)
	case fieldEnded:
		return appendNode(dst, m.Ended)
	case fieldUntil:
		return pack.AppendInt(dst, int64(m.Until))
	case fieldClient:
		if m.Client == "" {
			return dst
		}
		return pack.AppendString(dst, m.Client)
	case fieldSchedule:
		if len(m.Schedule) == 0 {
			return dst
		}
		return appendSchedule(dst, m.Schedule)
	case fieldInherits:
		if m.Within == 0 {
			return dst
		}
		return pack.AppendInt(dst, int64(m.Within))
	case fieldFormer:
		if m.Former.Session == 0 {
			return dst
		}
		return pack.AppendUint(pack.AppendUint(pack.AppendArray(dst, formerWidth), m.Former.Incarnation), m.Former.Session)
	case fieldKept:
		if len(m.Tokens) == 0 {
			return dst
		}
		return appendTokens(dst, m.Tokens)
	}
	panic("protocol: field without encoding")
}

func appendNode(dst []byte, n Node) []byte {
	return pack.AppendUint(pack.AppendString(dst, n.ID), n.Incarnation)
}

func appendEpoch(dst []byte, e Epoch) []byte {
	return pack.AppendUint(pack.AppendUint(dst, e.Number), e.Tie)
}

func appendRequestID(dst []byte, r RequestID) []byte {
	return pack.AppendUint(appendNode(dst, r.Node), r.Clock)
}

func appendGrant(dst []byte, g Grant) []byte {
	return pack.AppendUint(appendEpoch(dst, g.Epoch), g.Number)
}

func appendModels(dst []byte, m Models) []byte {
	return append(dst, byte(m.Priority)&0x7f, byte(m.Request)&0x7f, byte(m.Reply)&0x7f, byte(m.Release)&0x7f)
}

func appendSettings(dst []byte, s *Settings) []byte {
	dst = pack.AppendArray(dst, settingsWidth)
	dst = pack.AppendUint(dst, s.Version)
	dst = appendModels(dst, s.Models)
	dst = pack.AppendString(dst, s.ModelsBy)
	dst = pack.AppendBool(dst, s.Open)
	dst = pack.AppendArray(dst, len(s.Resources))
	for _, name := range s.Resources {
		dst = pack.AppendString(dst, name)
	}
	return pack.AppendString(dst, s.ResourcesBy)
}

func appendNodes(dst []byte, list []Node) []byte {
	dst = pack.AppendArray(dst, len(list))
	for _, n := range list {
		dst = pack.AppendArray(dst, nodeWidth)
		dst = appendNode(dst, n)
	}
	return dst
}

func appendEntries(dst []byte, entries []Entry) []byte {
	dst = pack.AppendArray(dst, len(entries))
	for _, e := range entries {
		dst = pack.AppendArray(dst, entryWidth)
		dst = appendRequestID(dst, e.ID)
		dst = pack.AppendUint(dst, e.Fence)
	}
	return dst
}

func appendTokens(dst []byte, tokens []TokenState) []byte {
	dst = pack.AppendArray(dst, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		n := tokenWidth
		if t.Client != "" {
			n++
		}
		dst = pack.AppendArray(dst, n)
		dst = pack.AppendString(dst, t.Resource)
		dst = appendGrant(dst, t.Grant)
		dst = appendRequestID(dst, t.Target)
		dst = pack.AppendUint(dst, t.Fence)
		if t.Client != "" {
			dst = pack.AppendString(dst, t.Client)
		}
	}
	return dst
}

func appendWishes(dst []byte, wishes []Wish) []byte {
	dst = pack.AppendArray(dst, len(wishes))
	for i := range wishes {
		w := &wishes[i]
		dst = pack.AppendArray(dst, wishWidth)
		dst = appendRequestID(dst, w.ID)
		dst = pack.AppendInt(dst, w.Priority)
		dst = pack.AppendInt(dst, int64(w.Within))
		dst = pack.AppendInt(dst, int64(w.Hold))
	}
	return dst
}

func appendSchedule(dst []byte, schedule []Scheduled) []byte {
	dst = pack.AppendArray(dst, len(schedule))
	for i := range schedule {
		s := &schedule[i]
		dst = pack.AppendArray(dst, scheduledWidth)
		dst = pack.AppendUint(dst, s.Number)
		dst = appendRequestID(dst, s.ID)
		dst = pack.AppendInt(dst, s.Priority)
		dst = pack.AppendUint(pack.AppendUint(dst, s.Fence), s.Session)
	}
	return dst
}
