package protocol

import (
	"encoding/binary"
	"fmt"
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
	n := widths[m.Kind]
	if m.Client != "" && carriesClient(m.Kind) {
		n++
	}
	dst = appendArray(dst, n)
	dst = append(dst, Version, byte(m.Kind)) // both below 128: positive fixints
	dst = appendUint(dst, uint64(m.Flags))
	dst = appendNode(dst, m.From)
	dst = appendNode(dst, m.To)
	dst = appendEpoch(dst, m.Epoch)
	dst = appendUint(dst, m.Link)
	dst = appendUint(dst, m.Seq)
	dst = appendUint(dst, m.Ack)
	dst = appendUint(dst, m.Clock)
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
		return appendInt(dst, m.Priority)
	case fieldResource:
		return appendString(dst, m.Resource)
	case fieldHops:
		return appendUint(dst, uint64(m.Hops))
	case fieldHidden:
		return appendUint(dst, uint64(m.Hidden))
	case fieldDepth:
		return appendUint(dst, uint64(m.Depth))
	case fieldMembers:
		return appendUint(dst, uint64(m.Members))
	case fieldGrant:
		return appendGrant(dst, m.Grant)
	case fieldFences:
		return appendUint(appendUint(dst, m.Fences.Next), m.Fences.End)
	case fieldSession:
		return appendUint(dst, m.Session)
	case fieldSent:
		return appendInt(dst, int64(m.Sent))
	case fieldNumber:
		return appendUint(dst, m.Number)
	case fieldTTL:
		return appendInt(dst, int64(m.TTL))
	case fieldParent:
		return appendNode(dst, m.Parent)
	case fieldMoveTo:
		return appendNode(dst, m.MoveTo)
	case fieldLeast:
		return appendNode(dst, m.Least)
	case fieldLeastP:
		return appendInt(dst, m.LeastP)
	case fieldPassedTo:
		return appendNode(dst, m.PassedTo)
	case fieldReason:
		return appendUint(dst, uint64(m.Reason))
	case fieldVerdict:
		return appendUint(dst, uint64(m.Verdict))
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
		return appendInt(dst, int64(m.Within))
	case fieldHold:
		return appendInt(dst, int64(m.Hold))
	case fieldWishes:
		return appendWishes(dst, m.Wishes)
	case fieldAttempt:
		return appendUint(dst, m.Attempt)
	case fieldValid:
		return appendInt(dst, int64(m.Valid))
	case fieldRenewal:
		return appendUint(appendUint(dst, m.Renewal.Counter), m.Renewal.Nonce)
	case fieldRank:
		return appendUint(dst, uint64(m.Rank))
	case fieldRegister:
		return appendUint(dst, m.Register)
	case fieldEnded:
		return appendNode(dst, m.Ended)
	case fieldUntil:
		return appendInt(dst, int64(m.Until))
	case fieldClient:
		if m.Client == "" {
			return dst
		}
		return appendString(dst, m.Client)
	}
	panic("protocol: field without encoding")
}

func appendNode(dst []byte, n Node) []byte {
	return appendUint(appendString(dst, n.ID), n.Incarnation)
}

func appendEpoch(dst []byte, e Epoch) []byte {
	return appendUint(appendUint(dst, e.Number), e.Tie)
}

func appendRequestID(dst []byte, r RequestID) []byte {
	return appendUint(appendNode(dst, r.Node), r.Clock)
}

func appendGrant(dst []byte, g Grant) []byte {
	return appendUint(appendEpoch(dst, g.Epoch), g.Number)
}

func appendModels(dst []byte, m Models) []byte {
	return append(dst, byte(m.Priority)&0x7f, byte(m.Request)&0x7f, byte(m.Reply)&0x7f, byte(m.Release)&0x7f)
}

func appendSettings(dst []byte, s *Settings) []byte {
	dst = appendArray(dst, settingsWidth)
	dst = appendUint(dst, s.Version)
	dst = appendModels(dst, s.Models)
	dst = appendString(dst, s.ModelsBy)
	dst = appendBool(dst, s.Open)
	dst = appendArray(dst, len(s.Resources))
	for _, name := range s.Resources {
		dst = appendString(dst, name)
	}
	return appendString(dst, s.ResourcesBy)
}

func appendNodes(dst []byte, list []Node) []byte {
	dst = appendArray(dst, len(list))
	for _, n := range list {
		dst = appendArray(dst, nodeWidth)
		dst = appendNode(dst, n)
	}
	return dst
}

func appendEntries(dst []byte, entries []Entry) []byte {
	dst = appendArray(dst, len(entries))
	for _, e := range entries {
		dst = appendArray(dst, entryWidth)
		dst = appendRequestID(dst, e.ID)
		dst = appendUint(dst, e.Fence)
	}
	return dst
}

func appendTokens(dst []byte, tokens []TokenState) []byte {
	dst = appendArray(dst, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		n := tokenWidth
		if t.Client != "" {
			n++
		}
		dst = appendArray(dst, n)
		dst = appendString(dst, t.Resource)
		dst = appendGrant(dst, t.Grant)
		dst = appendRequestID(dst, t.Target)
		dst = appendUint(dst, t.Fence)
		if t.Client != "" {
			dst = appendString(dst, t.Client)
		}
	}
	return dst
}

func appendWishes(dst []byte, wishes []Wish) []byte {
	dst = appendArray(dst, len(wishes))
	for i := range wishes {
		w := &wishes[i]
		dst = appendArray(dst, wishWidth)
		dst = appendRequestID(dst, w.ID)
		dst = appendInt(dst, w.Priority)
		dst = appendInt(dst, int64(w.Within))
		dst = appendInt(dst, int64(w.Hold))
	}
	return dst
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

func appendArray(dst []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(dst, codeFixArray|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, codeArray16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeArray32), uint32(n))
}

func appendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		dst = append(dst, codeFixStr|byte(n))
	case n < 1<<8:
		dst = append(dst, codeStr8, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, codeStr16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, codeStr32), uint32(n))
	}
	return append(dst, s...)
}

// appendUint writes the shortest form: most numbers of a message fit in one byte.
func appendUint(dst []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(dst, byte(v))
	case v < 1<<8:
		return append(dst, codeUint8, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, codeUint16), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, codeUint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeUint64), v)
}

func appendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(dst, uint64(v))
	case v >= -1<<5:
		return append(dst, byte(v))
	case v >= -1<<7:
		return append(dst, codeInt8, byte(v))
	case v >= -1<<15:
		return binary.BigEndian.AppendUint16(append(dst, codeInt16), uint16(v))
	case v >= -1<<31:
		return binary.BigEndian.AppendUint32(append(dst, codeInt32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeInt64), uint64(v))
}
