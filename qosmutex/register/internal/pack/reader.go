package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrMalformed is what every error of a [Reader] wraps.
var ErrMalformed = errors.New("malformed")

// Reader takes values from the front of a buffer. The first error sticks: it empties
// the buffer, so that whatever is read afterwards is zero and costs nothing. Nothing
// that it returns shares memory with the buffer.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a reader of b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Fail makes the reader fail, unless it already has.
func (r *Reader) Fail(what, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %s", ErrMalformed, what, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// End returns the first error, or that bytes are left.
func (r *Reader) End() error {
	if len(r.b) > 0 {
		r.Fail("end", "%d bytes follow", len(r.b))
	}
	return r.err
}

func (r *Reader) bigEndian(what string, width int) uint64 {
	if len(r.b) < width {
		r.Fail(what, "cut short")
		return 0
	}
	var v uint64
	switch width {
	case 1:
		v = uint64(r.b[0])
	case 2:
		v = uint64(binary.BigEndian.Uint16(r.b))
	case 4:
		v = uint64(binary.BigEndian.Uint32(r.b))
	default:
		v = binary.BigEndian.Uint64(r.b)
	}
	r.b = r.b[width:]
	return v
}

func (r *Reader) code(what string) byte { return byte(r.bigEndian(what, 1)) }

// Uint takes an unsigned integer that is at most limit.
func (r *Reader) Uint(what string, limit uint64) uint64 {
	c := r.code(what)
	v := uint64(c)
	switch {
	case c < codeFixMap:
	case c >= codeUint8 && c <= codeUint64:
		v = r.bigEndian(what, 1<<(c-codeUint8))
	default:
		r.Fail(what, "type 0x%02x is not an unsigned integer", c)
	}
	if v > limit {
		r.Fail(what, "%d is above %d", v, limit)
	}
	if r.err != nil {
		return 0
	}
	return v
}

// Bool takes a boolean.
func (r *Reader) Bool(what string) bool {
	c := r.code(what)
	if c != codeTrue && c != codeFalse {
		r.Fail(what, "type 0x%02x is not a boolean", c)
	}
	return c == codeTrue
}

// Array takes the head of an array of at most limit elements, each of at least one
// byte, and returns their number.
func (r *Reader) Array(what string, limit int) int {
	c := r.code(what)
	var n uint64
	switch {
	case c >= codeFixArray && c < codeFixStr:
		n = uint64(c - codeFixArray)
	case c == codeArray16:
		n = r.bigEndian(what, 2)
	case c == codeArray32:
		n = r.bigEndian(what, 4)
	default:
		r.Fail(what, "type 0x%02x is not an array", c)
	}
	if n > uint64(len(r.b)) {
		r.Fail(what, "claims %d elements in %d bytes", n, len(r.b))
	}
	if n > uint64(limit) {
		r.Fail(what, "has %d elements, at most %d are allowed", n, limit)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Tuple takes the head of an array of exactly n elements.
func (r *Reader) Tuple(what string, n int) {
	if got := r.Array(what, n); got != n {
		r.Fail(what, "has %d elements, needs %d", got, n)
	}
}

// String takes UTF-8 text of at most limit bytes.
func (r *Reader) String(what string, limit int) string {
	c := r.code(what)
	var n uint64
	switch {
	case c >= codeFixStr && c < codeFixStr+1<<5:
		n = uint64(c - codeFixStr)
	case c == codeStr8 || c == codeStr16:
		n = r.bigEndian(what, 1<<(c-codeStr8))
	default:
		r.Fail(what, "type 0x%02x is not a string", c)
	}
	s := r.take(what, n, limit)
	if !utf8.Valid(s) {
		r.Fail(what, "%q is not UTF-8", s)
		return ""
	}
	return string(s)
}

// Bytes takes binary data of at most limit bytes. It is nil if there are none.
func (r *Reader) Bytes(what string, limit int) []byte {
	c := r.code(what)
	if c < codeBin8 || c > codeBin32 {
		r.Fail(what, "type 0x%02x is not binary", c)
		return nil
	}
	return append([]byte(nil), r.take(what, r.bigEndian(what, 1<<(c-codeBin8)), limit)...)
}

func (r *Reader) take(what string, n uint64, limit int) []byte {
	if n > uint64(limit) {
		r.Fail(what, "has %d bytes, at most %d are allowed", n, limit)
		return nil
	}
	if n > uint64(len(r.b)) {
		r.Fail(what, "cut short")
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
