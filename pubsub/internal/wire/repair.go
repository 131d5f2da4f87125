package wire

// Writers and readers talk over the inbox about what was and was not received.
// These messages are small, may be lost and are then repeated.

// RepairOp says what a message of repair is about.
type RepairOp uint8

// What messages of repair are about, and who sends them.
const (
	OpHeartbeat RepairOp = iota + 1 // writer: I have first to last; volatile readers start after base
	OpAck                           // reader: I have everything up to acked, and lack ranges
	OpGap                           // writer: ranges are not in my history
	OpSample                        // writer: a sample which was asked for
	OpAlive                         // writer: I was asserted so long ago; with a finite lease
	OpEnd                           // writer: I am closed, and that is what I have written; as OpHeartbeat
)

// Range is from first to last, both included.
type Range struct{ First, Last uint64 }

// MaxRanges bounds the ranges of one message.
const MaxRanges = 32

// Repair is the body of a KindRepair envelope, as msgpack: [op, from, to,
// incarnation of to, a, b, c, key, sample, first, last, first, last, …].
type Repair struct {
	Op          RepairOp
	From, To    string // endpoints
	Incarnation uint64 // of the receiving participant

	// OpHeartbeat, OpEnd: first, last, base. OpAck: acked, 1 if a heartbeat is
	// wanted at once, and 1 if the writer should wait. OpAlive: nanoseconds.
	A, B, C uint64

	Key    string // OpSample: encoded key level; of others: how the reader calls the match, "" if not told
	Sample []byte // OpSample: the envelope
	Ranges []Range
}

// Encode returns the message of the participant whose incarnation sender is.
func (m *Repair) Encode(sender uint64) []byte {
	body := append(make([]byte, 0, 64+len(m.Sample)), 0xdc, 0, byte(9+2*len(m.Ranges)), byte(m.Op))
	body = appendStr(body, m.From)
	body = appendStr(body, m.To)
	for _, v := range []uint64{m.Incarnation, m.A, m.B, m.C} {
		body = appendUint(body, v)
	}
	body = appendStr(body, m.Key)
	body = appendBin(body, m.Sample)
	for _, r := range m.Ranges {
		body = appendUint(appendUint(body, r.First), r.Last)
	}
	e := Envelope{Kind: KindRepair, Epoch: sender, Body: body}
	return Append(make([]byte, 0, len(body)+32), &e)
}

// ParseRepair reads the body of a KindRepair envelope.
func ParseRepair(b []byte) (m Repair, err error) {
	n, b, err := readArray(b)
	if err != nil || n < 9 {
		return m, ErrMsgpack
	}
	var op uint64
	if op, b, err = readUint(b); err != nil || op < uint64(OpHeartbeat) || op > uint64(OpEnd) {
		return m, ErrMsgpack
	}
	m.Op = RepairOp(op)
	for _, s := range []*string{&m.From, &m.To} {
		var text []byte
		if text, b, err = readBytes(b); err != nil || len(text) > MaxName {
			return m, ErrMsgpack
		}
		*s = string(text)
	}
	for _, v := range []*uint64{&m.Incarnation, &m.A, &m.B, &m.C} {
		if *v, b, err = readUint(b); err != nil {
			return m, err
		}
	}
	var key []byte
	if key, b, err = readBytes(b); err != nil {
		return m, err
	}
	m.Key = string(key)
	if m.Sample, b, err = readBytes(b); err != nil {
		return m, err
	}
	for i := 9; i+1 < n && len(m.Ranges) < MaxRanges; i += 2 {
		var r Range
		if r.First, b, err = readUint(b); err != nil {
			return m, err
		}
		if r.Last, b, err = readUint(b); err != nil || r.Last < r.First {
			return m, ErrMsgpack
		}
		m.Ranges = append(m.Ranges, r)
	}
	return m, nil
}
