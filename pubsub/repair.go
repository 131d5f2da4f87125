package pubsub

// Writers and readers talk over the inbox about what was and was not received.
// These letters are small, may be lost and are then repeated.

type repairOp uint8

const (
	opHeartbeat repairOp = iota + 1 // writer: I have first to last; volatile readers start after base
	opAck                           // reader: I have everything up to acked, and lack ranges
	opGap                           // writer: ranges are not in my history
	opSample                        // writer: a sample which was asked for
	opAlive                         // writer: I was asserted so long ago; with a finite lease
)

// seqRange is from first to last, both included.
type seqRange struct{ first, last uint64 }

// maxRanges bounds the ranges of one letter.
const maxRanges = 32

// repairMessage is the body of a kindRepair envelope, as msgpack: [op, from, to,
// incarnation of to, a, b, c, key, sample, first, last, first, last, …].
type repairMessage struct {
	op          repairOp
	from, to    string // endpoints
	incarnation uint64 // of the receiving participant

	// opHeartbeat: first, last, base. opAck: acked, and 1 if a heartbeat is
	// wanted at once. opAlive: nanoseconds.
	a, b, c uint64

	key    string // opSample: encoded key level
	sample []byte // opSample: the envelope
	ranges []seqRange
}

func (m *repairMessage) encode(sender uint64) []byte {
	body := append(make([]byte, 0, 64+len(m.sample)), 0xdc, 0, byte(9+2*len(m.ranges)), byte(m.op))
	body = appendStr(body, m.from)
	body = appendStr(body, m.to)
	for _, v := range []uint64{m.incarnation, m.a, m.b, m.c} {
		body = appendUint(body, v)
	}
	body = appendStr(body, m.key)
	body = appendBin(body, m.sample)
	for _, r := range m.ranges {
		body = appendUint(appendUint(body, r.first), r.last)
	}
	e := envelope{kind: kindRepair, epoch: sender, body: body}
	return appendEnvelope(make([]byte, 0, len(body)+32), &e)
}

func parseRepair(b []byte) (m repairMessage, err error) {
	n, b, err := readArray(b)
	if err != nil || n < 9 {
		return m, errMsgpack
	}
	var op uint64
	if op, b, err = readUint(b); err != nil || op < uint64(opHeartbeat) || op > uint64(opAlive) {
		return m, errMsgpack
	}
	m.op = repairOp(op)
	for _, s := range []*string{&m.from, &m.to} {
		var text []byte
		if text, b, err = readBytes(b); err != nil || len(text) > maxLevel {
			return m, errMsgpack
		}
		*s = string(text)
	}
	for _, v := range []*uint64{&m.incarnation, &m.a, &m.b, &m.c} {
		if *v, b, err = readUint(b); err != nil {
			return m, err
		}
	}
	var key []byte
	if key, b, err = readBytes(b); err != nil {
		return m, err
	}
	m.key = string(key)
	if m.sample, b, err = readBytes(b); err != nil {
		return m, err
	}
	for i := 9; i+1 < n && len(m.ranges) < maxRanges; i += 2 {
		var r seqRange
		if r.first, b, err = readUint(b); err != nil {
			return m, err
		}
		if r.last, b, err = readUint(b); err != nil || r.last < r.first {
			return m, errMsgpack
		}
		m.ranges = append(m.ranges, r)
	}
	return m, nil
}
