package caspaxos

import (
	"math"

	"padme/qosmutex/internal/pack"
	"padme/qosmutex/register"
)

// codecVersion is the first element of every message.
const codecVersion = 1

// widths is how many elements a message of each kind has, header included.
var widths = [kindEnd]int{
	KindEnroll: 9, KindCurrent: 9, KindReject: 11, KindHello: 8, KindPrepare: 12, KindPromise: 12,
	KindAccept: 12, KindAccepted: 11, KindRefused: 14, KindRead: 10, KindValues: 10, KindFetch: 10,
	KindPage: 13, KindRequest: 12, KindReply: 14,
	KindInquire: 9, KindReport: 10, KindReplace: 12, KindReplaced: 12,
}

// AppendMessage appends the encoded form of a message, an array of msgpack. From and
// To are left to the transport.
func AppendMessage(dst []byte, m *Message) []byte {
	dst = pack.AppendUint(pack.AppendArray(dst, widths[m.Kind]), codecVersion)
	dst = pack.AppendUint(dst, uint64(m.Kind))
	dst = pack.AppendBytes(dst, m.Domain[:])
	dst = pack.AppendUint(dst, uint64(m.Config))
	dst = pack.AppendUint(pack.AppendUint(dst, m.Run.Instance), m.Run.Boot)
	dst = pack.AppendUint(pack.AppendUint(dst, m.Run.Base), m.Run.Serial)
	switch m.Kind {
	case KindEnroll:
		return appendStrings(dst, m.Voters)
	case KindCurrent:
		return appendConfig(dst, m.Next)
	case KindReject:
		return appendStrings(pack.AppendUint(pack.AppendUint(dst, uint64(m.Reason)), m.About), m.Voters)
	case KindPrepare:
		return appendStrings(appendBallot(dst, m.Ballot), m.Keys)
	case KindPromise, KindAccept:
		return appendSlots(appendBallot(dst, m.Ballot), m.Slots)
	case KindAccepted:
		return appendBallot(dst, m.Ballot)
	case KindRefused:
		return pack.AppendBool(pack.AppendUint(pack.AppendUint(appendBallot(dst, m.Ballot), m.Seq), m.Round), m.Large)
	case KindRead:
		return appendStrings(pack.AppendUint(dst, m.Seq), m.Keys)
	case KindValues:
		return appendSlots(pack.AppendUint(dst, m.Seq), m.Slots)
	case KindFetch:
		return pack.AppendString(appendConfig(dst, m.Next), m.After)
	case KindPage:
		dst = pack.AppendString(pack.AppendUint(dst, uint64(m.Target)), m.After)
		return appendSlots(pack.AppendBool(pack.AppendBool(dst, m.More), m.Installed), m.Slots)
	case KindRequest:
		dst = pack.AppendUint(pack.AppendUint(dst, m.Seq), uint64(m.Within))
		return appendWrites(appendStrings(dst, m.Keys), m.Writes)
	case KindReply:
		dst = pack.AppendBool(pack.AppendUint(dst, m.Seq), m.Large)
		dst = pack.AppendBool(pack.AppendBool(dst, m.Failed), m.Unknown)
		return appendOutcomes(appendStrings(dst, m.Missing), m.Outcomes)
	case KindInquire:
		return pack.AppendUint(dst, m.Seq)
	case KindReport:
		return pack.AppendString(pack.AppendUint(dst, m.Seq), m.Text)
	case KindReplace:
		dst = pack.AppendUint(pack.AppendUint(dst, m.Seq), uint64(m.Within))
		return pack.AppendString(pack.AppendString(dst, m.Old), m.New)
	case KindReplaced:
		dst = pack.AppendBool(pack.AppendUint(dst, m.Seq), m.Failed)
		return pack.AppendString(appendStrings(dst, m.Missing), m.Text)
	}
	return dst
}

// KindOf returns the kind that an encoded message says it has, whatever else is in it.
func KindOf(b []byte) Kind {
	r := pack.NewReader(b)
	r.Array("message", 32)
	r.Uint("version", math.MaxUint8)
	return Kind(r.Uint("kind", uint64(kindEnd-1)))
}

// Decode reads a message. Its error wraps [pack.ErrMalformed] and names the field.
// Memory is allocated only for what b really contains.
func Decode(b []byte) (*Message, error) {
	r := pack.NewReader(b)
	n := r.Array("message", 32)
	if v := r.Uint("version", math.MaxUint8); v != codecVersion && r.Err() == nil {
		r.Fail("version", "%d is not %d: the sender needs a release that speaks it", v, codecVersion)
	}
	m := &Message{Kind: Kind(r.Uint("kind", uint64(kindEnd-1)))}
	if r.Err() == nil && n != widths[m.Kind] {
		r.Fail("message", "has %d elements, a %v has %d", n, m.Kind, widths[m.Kind])
	}
	readDomain(r, &m.Domain)
	m.Config = uint32(r.Uint("config", math.MaxUint32))
	m.Run = Run{r.Uint("instance", math.MaxUint64), r.Uint("boot", math.MaxUint64), r.Uint("base", math.MaxUint64), r.Uint("serial", math.MaxUint64)}
	decodeFields(r, m)
	if err := r.End("message"); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeFields(r *pack.Reader, m *Message) {
	switch m.Kind {
	case KindEnroll:
		m.Voters = readStrings(r, "voters", MaxVoters)
	case KindCurrent:
		m.Next = readConfig(r)
	case KindReject:
		m.Reason, m.About = Reason(r.Uint("reason", uint64(reasonEnd-1))), r.Uint("about", math.MaxUint64)
		m.Voters = readStrings(r, "voters", MaxVoters)
	case KindPrepare:
		m.Ballot, m.Keys = readBallot(r), readStrings(r, "keys", MaxBatch)
	case KindPromise, KindAccept:
		m.Ballot, m.Slots = readBallot(r), readSlots(r)
	case KindAccepted:
		m.Ballot = readBallot(r)
	case KindRefused:
		m.Ballot, m.Seq = readBallot(r), r.Uint("seq", math.MaxUint64)
		m.Round, m.Large = r.Uint("round", math.MaxUint64), r.Bool("large")
	case KindRead:
		m.Seq, m.Keys = r.Uint("seq", math.MaxUint64), readStrings(r, "keys", MaxBatch)
	case KindValues:
		m.Seq, m.Slots = r.Uint("seq", math.MaxUint64), readSlots(r)
	case KindFetch:
		m.Next, m.After = readConfig(r), r.String("after", register.MaxKey)
	case KindPage:
		m.Target, m.After = uint32(r.Uint("target", math.MaxUint32)), r.String("after", register.MaxKey)
		m.More, m.Installed, m.Slots = r.Bool("more"), r.Bool("installed"), readSlots(r)
	case KindRequest:
		m.Seq, m.Within = r.Uint("seq", math.MaxUint64), Time(r.Uint("within", math.MaxInt64))
		m.Keys, m.Writes = readStrings(r, "keys", MaxBatch), readWrites(r)
	case KindReply:
		m.Seq, m.Large = r.Uint("seq", math.MaxUint64), r.Bool("large")
		m.Failed, m.Unknown = r.Bool("failed"), r.Bool("unknown")
		m.Missing, m.Outcomes = readStrings(r, "missing", MaxVoters), readOutcomes(r)
	case KindInquire:
		m.Seq = r.Uint("seq", math.MaxUint64)
	case KindReport:
		m.Seq, m.Text = r.Uint("seq", math.MaxUint64), r.String("text", MaxText)
	case KindReplace:
		m.Seq, m.Within = r.Uint("seq", math.MaxUint64), Time(r.Uint("within", math.MaxInt64))
		m.Old, m.New = r.String("old", register.MaxKey), r.String("new", register.MaxKey)
	case KindReplaced:
		m.Seq, m.Failed = r.Uint("seq", math.MaxUint64), r.Bool("failed")
		m.Missing, m.Text = readStrings(r, "missing", MaxVoters), r.String("text", MaxText)
	}
}

func readDomain(r *pack.Reader, d *register.Domain) {
	b := r.Bytes("domain", len(d))
	if len(b) != len(d) {
		r.Fail("domain", "has %d bytes, not %d", len(b), len(d))
	}
	copy(d[:], b)
}

func appendBallot(dst []byte, b Ballot) []byte {
	return pack.AppendUint(pack.AppendUint(pack.AppendUint(dst, uint64(b.Config)), b.Round), uint64(b.Voter))
}

func readBallot(r *pack.Reader) Ballot {
	return Ballot{
		uint32(r.Uint("ballot", math.MaxUint32)), r.Uint("ballot", math.MaxUint64), uint8(r.Uint("ballot", MaxVoters-1)),
	}
}

func appendStrings(dst []byte, list []string) []byte {
	dst = pack.AppendArray(dst, len(list))
	for _, s := range list {
		dst = pack.AppendString(dst, s)
	}
	return dst
}

func readStrings(r *pack.Reader, what string, limit int) []string {
	var list []string
	for range r.Array(what, limit) {
		list = append(list, r.String(what, register.MaxKey))
	}
	return list
}

func appendState(dst []byte, s *State) []byte {
	dst = pack.AppendUint(pack.AppendUint(dst, s.Stamp.Counter), s.Stamp.Nonce)
	dst = pack.AppendUint(pack.AppendUint(dst, s.Firm.Counter), s.Firm.Nonce)
	return pack.AppendBytes(pack.AppendUint(dst, uint64(s.Lease)), s.Value)
}

func readState(r *pack.Reader) State {
	return State{
		Stamp: Stamp{r.Uint("counter", math.MaxUint64), r.Uint("nonce", math.MaxUint64)},
		Firm:  Stamp{r.Uint("firm counter", math.MaxUint64), r.Uint("firm nonce", math.MaxUint64)},
		Lease: Time(r.Uint("lease", math.MaxInt64)),
		Value: r.Bytes("value", register.MaxValue),
	}
}

const slotWidth = 10

func appendSlot(dst []byte, s *Slot) []byte {
	dst = pack.AppendString(pack.AppendArray(dst, slotWidth), s.Key)
	return appendState(appendBallot(dst, s.Accepted), &s.State)
}

func readSlot(r *pack.Reader) Slot {
	r.Tuple("slot", slotWidth)
	return Slot{r.String("key", register.MaxKey), readBallot(r), readState(r)}
}

func appendSlots(dst []byte, list []Slot) []byte {
	dst = pack.AppendArray(dst, len(list))
	for i := range list {
		dst = appendSlot(dst, &list[i])
	}
	return dst
}

func readSlots(r *pack.Reader) []Slot {
	var list []Slot
	for range r.Array("slots", MaxBatch) {
		list = append(list, readSlot(r))
		if r.Err() != nil {
			return nil
		}
	}
	return list
}

func appendConfig(dst []byte, c *Config) []byte {
	dst = pack.AppendBytes(pack.AppendArray(dst, 4), c.Domain[:])
	dst = pack.AppendUint(dst, uint64(c.Number))
	for _, list := range [][]Voter{c.Voters, c.Prev} {
		dst = pack.AppendArray(dst, 2*len(list))
		for _, v := range list {
			dst = pack.AppendUint(pack.AppendString(dst, v.ID), v.Instance)
		}
	}
	return dst
}

func readConfig(r *pack.Reader) *Config {
	r.Tuple("configuration", 4)
	c := &Config{}
	readDomain(r, &c.Domain)
	c.Number = uint32(r.Uint("configuration number", math.MaxUint32))
	for _, list := range []*[]Voter{&c.Voters, &c.Prev} {
		for range r.Array("voters", 2*MaxVoters) / 2 {
			*list = append(*list, Voter{r.String("voter", register.MaxKey), r.Uint("instance", math.MaxUint64)})
		}
	}
	if _, err := CheckVoters(c.IDs()); r.Err() == nil && (err != nil || c.Number == 0) {
		r.Fail("configuration", "number %d: %v", c.Number, err)
	}
	return c
}

const writeWidth = 7

func appendWrites(dst []byte, list []register.Write) []byte {
	dst = pack.AppendArray(dst, len(list))
	for i := range list {
		w := &list[i]
		dst = pack.AppendString(pack.AppendArray(dst, writeWidth), w.Key)
		dst = pack.AppendBytes(dst, w.Old.Domain[:])
		dst = pack.AppendUint(pack.AppendUint(dst, w.Old.Counter), w.Old.Nonce)
		dst = pack.AppendBytes(pack.AppendUint(dst, w.Nonce), w.Value)
		dst = pack.AppendUint(dst, uint64(w.Renewal))
	}
	return dst
}

func readWrites(r *pack.Reader) []register.Write {
	var list []register.Write
	for range r.Array("writes", MaxBatch) {
		r.Tuple("write", writeWidth)
		w := register.Write{Key: r.String("key", register.MaxKey)}
		readDomain(r, &w.Old.Domain)
		w.Old.Counter, w.Old.Nonce = r.Uint("counter", math.MaxUint64), r.Uint("nonce", math.MaxUint64)
		w.Nonce, w.Value = r.Uint("nonce", math.MaxUint64), r.Bytes("value", register.MaxValue)
		readDuration(r, "renewal", &w.Renewal)
		if r.Err() != nil {
			return nil
		}
		list = append(list, w)
	}
	return list
}

func readDuration[D ~int64](r *pack.Reader, what string, d *D) { *d = D(r.Uint(what, math.MaxInt64)) }

const outcomeWidth = 8

func appendOutcomes(dst []byte, list []Outcome) []byte {
	dst = pack.AppendArray(dst, len(list))
	for i := range list {
		dst = pack.AppendBool(pack.AppendArray(dst, outcomeWidth), list[i].Conflict)
		dst = appendState(pack.AppendBool(dst, list[i].Unknown), &list[i].State)
	}
	return dst
}

func readOutcomes(r *pack.Reader) []Outcome {
	var list []Outcome
	for range r.Array("outcomes", MaxBatch) {
		r.Tuple("outcome", outcomeWidth)
		list = append(list, Outcome{r.Bool("conflict"), r.Bool("unknown"), readState(r)})
		if r.Err() != nil {
			return nil
		}
	}
	return list
}
