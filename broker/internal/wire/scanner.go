package wire

import (
	"bytes"
	"encoding/binary"
)

// A Scanner reads along with what comes after the CONNECT of a connection. What it has
// accepted may be passed on at once: the library decodes a packet when it has all of it,
// so one that is refused in its middle is never decoded. A Scanner is for one goroutine.
type Scanner struct {
	Limits  Limits
	Version byte // of the protocol, as the CONNECT says

	head []byte // of the present packet, as far as it must be looked at
	want int    // how long head must be to go on
	left int    // bytes of the packet that nobody need look at
}

// keptHead is up to which size the memory for a packet's head is used again.
const keptHead = 4 << 10

// Scan looks at the next bytes of the connection. After an error, a [LimitError] or
// [ErrMalformed], the connection must end.
func (s *Scanner) Scan(b []byte) error {
	for len(b) > 0 {
		if s.left > 0 {
			n := min(s.left, len(b))
			s.left -= n
			b = b[n:]
			continue
		}
		s.want = max(s.want, 2) // the shortest packet
		n := min(s.want-len(s.head), len(b))
		s.head = append(s.head, b[:n]...)
		b = b[n:]
		if len(s.head) < s.want {
			return nil
		}
		want, total, err := s.look()
		if err != nil {
			return err
		}
		if s.want = want; want > len(s.head) {
			continue
		}
		s.left, s.want = total-len(s.head), 0
		if s.head = s.head[:0]; cap(s.head) > keptHead {
			s.head = nil
		}
	}
	return nil
}

// Between reports whether the next byte begins a packet.
func (s *Scanner) Between() bool { return s.left == 0 && len(s.head) == 0 }

// look judges the head of a packet. It returns how long the head must be to judge all of
// it, which it is if it has that length already, and how long the packet is.
func (s *Scanner) look() (want, total int, err error) {
	length, at, err := varintAt(s.head, 1)
	if err != nil || at > len(s.head) {
		return at, at, err
	}
	total = at + length
	if most := s.Limits.Bytes; most > 0 && total > most {
		return 0, 0, &LimitError{Bytes, most}
	}
	kind, flags := s.head[0]>>4, s.head[0]&15
	five := s.Version == 5
	switch kind {
	case publish:
		want, err = s.publish(at, total, flags&6 != 0, five)
	case subscribe, unsubscribe:
		if want = total; want == len(s.head) {
			err = s.filters(s.head[at:], kind == subscribe, five)
		}
	case puback, pubrec, pubrel, pubcomp:
		if want = total; five && want == len(s.head) {
			err = s.properties(s.head[at:], 3)
		}
	case disconnect, auth: // an AUTH is read like that in any version
		if want = total; (five || kind == auth) && want == len(s.head) {
			err = s.properties(s.head[at:], 1)
		}
	case pingreq:
		want = at
	default: // a second CONNECT, or what only a server sends: the library would decode it first
		err = ErrMalformed
	}
	return min(want, total), total, err
}

// publish looks at topic and properties, and leaves the payload alone.
func (s *Scanner) publish(at, total int, id, five bool) (want int, err error) {
	b := s.head
	if want = at + 2; len(b) < want {
		return want, nil
	}
	topic := want
	want += int(binary.BigEndian.Uint16(b[at:]))
	if len(b) < want {
		return want, nil
	}
	if bytes.Count(b[topic:want], slash) >= s.Limits.Levels {
		return 0, &LimitError{Levels, s.Limits.Levels}
	}
	if !five {
		return want, nil
	}
	if id {
		want += 2
	}
	length, values, err := varintAt(b, want)
	if err != nil || values > len(b) {
		return values, err
	}
	if values+length > total {
		return 0, ErrMalformed // the library would read as many as there are
	}
	if values+length > len(b) {
		return values + length, nil
	}
	r := reader{b: b[want:]}
	r.properties(s.Limits.Properties)
	return values + length, r.err
}

// filters looks at a SUBSCRIBE or UNSUBSCRIBE without its fixed header.
func (s *Scanner) filters(body []byte, options, five bool) error {
	r := reader{b: body}
	r.take(2) // the packet id
	if five {
		r.properties(s.Limits.Properties)
	}
	for n := 1; len(r.b) > 0; n++ {
		if n > s.Limits.Filters {
			return &LimitError{Filters, s.Limits.Filters}
		}
		if filter := r.text(); bytes.Count(filter, slash) >= s.Limits.Levels {
			return &LimitError{Levels, s.Limits.Levels}
		}
		if options {
			r.take(1)
		}
	}
	return r.err
}

// properties looks at a packet which has them, if any, behind so many bytes.
func (s *Scanner) properties(body []byte, behind int) error {
	if len(body) <= behind {
		return nil
	}
	r := reader{b: body[behind:]}
	r.properties(s.Limits.Properties)
	return r.err
}

// varintAt reads a number of variable length. end is behind it, or, beyond b, how long b
// must be at least to read on.
func varintAt(b []byte, at int) (n, end int, err error) {
	for i := range 4 {
		if at+i >= len(b) {
			return 0, at + i + 1, nil
		}
		n |= int(b[at+i]&0x7f) << (7 * i)
		if b[at+i]&0x80 == 0 {
			return n, at + i + 1, nil
		}
	}
	return 0, 0, ErrMalformed
}
