package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// ErrMalformed is what every error of a [Reader] wraps that says nothing else of it.
var ErrMalformed = errors.New("malformed")

// Reader takes values from the front of a buffer. The first error sticks: it empties
// the buffer, so that whatever is read afterwards is zero and costs nothing. It is not safe
// for concurrent use.
type Reader struct {
	// Malformed is what errors wrap; nil: ErrMalformed.
	Malformed error

	b   []byte
	err error
}

// NewReader returns a reader of b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Reset begins with another buffer.
func (r *Reader) Reset(b []byte) { r.b, r.err = b, nil }

// Fail makes the reader fail, unless it already has.
func (r *Reader) Fail(what, format string, args ...any) {
	if r.err == nil {
		malformed := r.Malformed
		if malformed == nil {
			malformed = ErrMalformed
		}
		r.err = fmt.Errorf("%w: %s: %s", malformed, what, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// End returns the first error, or that bytes are left. The reader does not refer to its
// buffer any more.
func (r *Reader) End(what string) error {
	if len(r.b) > 0 {
		r.Fail(what, "%d bytes follow its end", len(r.b))
	}
	r.b = nil
	return r.err
}

// bigEndian takes an unsigned number of width 1, 2, 4 or 8 bytes.
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

// code takes the byte that says what follows.
func (r *Reader) code(what string) byte {
	if len(r.b) == 0 {
		r.Fail(what, "cut short")
		return codeNil
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// integer takes an integer of any width. When negative is set, v is the two's
// complement of a number below zero.
func (r *Reader) integer(what string) (v uint64, negative bool) {
	c := r.code(what)
	switch {
	case c < codeFixMap:
		return uint64(c), false
	case c >= codeNegative:
		return uint64(int64(int8(c))), true
	case c >= codeUint8 && c <= codeUint64:
		return r.bigEndian(what, 1<<(c-codeUint8)), false
	case c >= codeInt8 && c <= codeInt64:
		width := 1 << (c - codeInt8)
		shift := 64 - 8*width
		s := int64(r.bigEndian(what, width)<<shift) >> shift
		return uint64(s), s < 0
	}
	r.Fail(what, "type 0x%02x is not an integer", c)
	return 0, false
}

// Uint takes an unsigned integer that is at most limit.
func (r *Reader) Uint(what string, limit uint64) uint64 {
	v, negative := r.integer(what)
	if negative {
		r.Fail(what, "%d is negative", int64(v))
		return 0
	}
	if v > limit {
		r.Fail(what, "%d is above %d", v, limit)
		return 0
	}
	return v
}

// Uint64 takes any unsigned integer. It spares small numbers, which most are, the general way.
func (r *Reader) Uint64(what string) uint64 {
	if len(r.b) > 0 && r.b[0] < codeFixMap {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	return r.Uint(what, math.MaxUint64)
}

// Int64 takes an integer.
func (r *Reader) Int64(what string) int64 {
	v, negative := r.integer(what)
	if !negative && v > math.MaxInt64 {
		r.Fail(what, "%d is above %d", v, int64(math.MaxInt64))
		return 0
	}
	return int64(v)
}

// Bool takes a boolean.
func (r *Reader) Bool(what string) bool {
	switch c := r.code(what); c {
	case codeTrue:
		return true
	case codeFalse:
		return false
	default:
		r.Fail(what, "type 0x%02x is not a boolean", c)
		return false
	}
}

// Array takes the head of an array of at most limit elements, each of at least one byte,
// and returns their number.
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
		return 0
	}
	if n > uint64(len(r.b)) {
		r.Fail(what, "claims %d elements in %d bytes", n, len(r.b))
		return 0
	}
	if n > uint64(limit) {
		r.Fail(what, "has %d elements, at most %d are allowed", n, limit)
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

// AtLeast takes the head of an array of n elements or more, and returns how many more: those
// that a later version has appended, which the caller skips after its own.
func (r *Reader) AtLeast(what string, n int) (more int) {
	got := r.Array(what, math.MaxInt)
	if got < n {
		r.Fail(what, "has %d elements, needs %d", got, n)
		return 0
	}
	return got - n
}

// Text takes a string of at most limit bytes, UTF-8 or not, which share memory with the
// buffer.
func (r *Reader) Text(what string, limit int) []byte {
	c := r.code(what)
	var n uint64
	switch {
	case c >= codeFixStr && c < codeNil:
		n = uint64(c - codeFixStr)
	case c >= codeStr8 && c <= codeStr32:
		n = r.bigEndian(what, 1<<(c-codeStr8))
	default:
		r.Fail(what, "type 0x%02x is not a string", c)
	}
	return r.take(what, n, limit)
}

// String takes UTF-8 text of at most limit bytes.
func (r *Reader) String(what string, limit int) string {
	s := r.Text(what, limit)
	if !utf8.Valid(s) {
		r.Fail(what, "%q is not UTF-8", s)
		return ""
	}
	return string(s)
}

// Bytes takes binary data of at most limit bytes, a copy. It is nil if there are none.
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
