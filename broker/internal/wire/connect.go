package wire

import (
	"bytes"
	"encoding/binary"
)

// Connect is what a CONNECT says about who sends it.
type Connect struct {
	Version        byte
	ID             string
	User, Password []byte // parts of the packet's memory
}

// ParseConnect reads a CONNECT without its fixed header. It is stricter than the library
// where that reads beyond a length: what both accept, both read alike.
func ParseConnect(body []byte, limits Limits) (Connect, error) {
	r := reader{b: body}
	r.text() // the protocol's name
	c := Connect{Version: r.byte()}
	flags := r.byte()
	r.take(2) // keepalive
	if c.Version == 5 {
		r.properties(limits.Properties)
	}
	c.ID = string(r.text())
	if flags&4 != 0 {
		if c.Version == 5 {
			r.properties(limits.Properties)
		}
		if topic := r.text(); bytes.Count(topic, slash) >= limits.Levels {
			r.fail(&LimitError{Levels, limits.Levels})
		}
		r.text() // its payload
	}
	if flags&0x80 != 0 {
		c.User = r.text()
	}
	if flags&0x40 != 0 {
		c.Password = r.text()
	}
	return c, r.err
}

var slash = []byte{'/'}

// reader takes bytes off a packet; after an error it returns nothing.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(ErrMalformed)
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) text() []byte {
	if b := r.take(2); b != nil {
		return r.take(int(binary.BigEndian.Uint16(b)))
	}
	return nil
}

func (r *reader) varint() (n int) {
	for shift := 0; shift < 28; shift += 7 {
		b := r.byte()
		n |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			return n
		}
	}
	r.fail(ErrMalformed)
	return 0
}

func (r *reader) properties(limit int) {
	p := reader{b: r.take(r.varint())}
	for n := 1; len(p.b) > 0; n++ {
		if n > limit {
			p.fail(&LimitError{Properties, limit})
			break
		}
		switch widthOf(p.byte()) {
		case one:
			p.take(1)
		case two:
			p.take(2)
		case four:
			p.take(4)
		case varint:
			p.varint()
		case text:
			p.text()
		case pair:
			p.text()
			p.text()
		default:
			p.fail(ErrMalformed)
		}
	}
	if p.err != nil {
		r.fail(p.err)
	}
}
