package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Codes of the msgpack format.
const (
	codeFixMap   = 0x80
	codeFixArray = 0x90
	codeFixStr   = 0xa0
	codeNil      = 0xc0
	codeFalse    = 0xc2
	codeTrue     = 0xc3
	codeBin8     = 0xc4
	codeBin32    = 0xc6
	codeExt8     = 0xc7
	codeExt32    = 0xc9
	codeFloat32  = 0xca
	codeFloat64  = 0xcb
	codeUint8    = 0xcc
	codeUint16   = 0xcd
	codeUint32   = 0xce
	codeUint64   = 0xcf
	codeInt8     = 0xd0
	codeInt16    = 0xd1
	codeInt32    = 0xd2
	codeInt64    = 0xd3
	codeFixExt1  = 0xd4
	codeFixExt16 = 0xd8
	codeStr8     = 0xd9
	codeStr16    = 0xda
	codeStr32    = 0xdb
	codeArray16  = 0xdc
	codeArray32  = 0xdd
	codeMap16    = 0xde
	codeMap32    = 0xdf
	codeNegative = 0xe0 // first of the negative fixints
)

// maxNesting bounds the arrays and maps inside an element that is skipped.
const maxNesting = 16

// reader takes msgpack primitives from the front of b. The first error sticks:
// it empties b, so that whatever is read afterwards is zero and costs nothing.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %s", ErrMalformed, what, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

// bigEndian takes an unsigned number of width 1, 2, 4 or 8 bytes.
func (r *reader) bigEndian(what string, width int) uint64 {
	if len(r.b) < width {
		r.fail(what, "cut short")
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
func (r *reader) code(what string) byte {
	if len(r.b) == 0 {
		r.fail(what, "cut short")
		return codeNil
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// integer takes an integer of any width. When negative is set, v is the two's
// complement of a number below zero.
func (r *reader) integer(what string) (v uint64, negative bool) {
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
	r.fail(what, "type 0x%02x is not an integer", c)
	return 0, false
}

// uint takes an unsigned integer that is at most limit.
func (r *reader) uint(what string, limit uint64) uint64 {
	v, negative := r.integer(what)
	if negative {
		r.fail(what, "%d is negative", int64(v))
		return 0
	}
	if v > limit {
		r.fail(what, "%d is above %d", v, limit)
		return 0
	}
	return v
}

// uint64 spares small numbers, which most are, the general way.
func (r *reader) uint64(what string) uint64 {
	if len(r.b) > 0 && r.b[0] < codeFixMap {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	return r.uint(what, math.MaxUint64)
}

func (r *reader) int64(what string) int64 {
	v, negative := r.integer(what)
	if !negative && v > math.MaxInt64 {
		r.fail(what, "%d is above %d", v, int64(math.MaxInt64))
		return 0
	}
	return int64(v)
}

func (r *reader) bool(what string) bool {
	switch c := r.code(what); c {
	case codeTrue:
		return true
	case codeFalse:
		return false
	default:
		r.fail(what, "type 0x%02x is not a boolean", c)
		return false
	}
}

// array takes the length of an array, which is at most limit and at most what
// the bytes left can hold.
func (r *reader) array(what string, limit int) int {
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
		r.fail(what, "type 0x%02x is not an array", c)
		return 0
	}
	if n > uint64(len(r.b)) {
		r.fail(what, "claims %d elements in %d bytes", n, len(r.b))
		return 0
	}
	if n > uint64(limit) {
		r.fail(what, "has %d elements, at most %d are allowed", n, limit)
		return 0
	}
	return int(n)
}

// tuple takes the length of an array of at least width elements and returns how
// many a later version has appended. The caller skips those after its own.
func (r *reader) tuple(what string, width int) (extra int) {
	n := r.array(what, math.MaxInt)
	if n < width {
		r.fail(what, "has %d elements, needs %d", n, width)
		return 0
	}
	return n - width
}

// bytes takes the contents of a string of at most limit bytes. They share memory
// with the input.
func (r *reader) bytes(what string, limit int) []byte {
	c := r.code(what)
	var n uint64
	switch {
	case c >= codeFixStr && c < codeNil:
		n = uint64(c - codeFixStr)
	case c >= codeStr8 && c <= codeStr32:
		n = r.bigEndian(what, 1<<(c-codeStr8))
	default:
		r.fail(what, "type 0x%02x is not a string", c)
		return nil
	}
	if n > uint64(limit) {
		r.fail(what, "has %d bytes, at most %d are allowed", n, limit)
		return nil
	}
	if n > uint64(len(r.b)) {
		r.fail(what, "cut short")
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

// skip passes over n elements of any type. It keeps the elements still to come
// of each open array or map on a stack of fixed size, so a stranger's nesting
// costs neither memory nor recursion.
func (r *reader) skip(what string, n int) {
	var left [maxNesting + 1]uint64
	left[0] = uint64(n)
	depth := 0
	for depth >= 0 && r.err == nil {
		if left[depth] == 0 {
			depth--
			continue
		}
		left[depth]--
		inside, payload := r.head(what)
		if payload > uint64(len(r.b)) || inside > uint64(len(r.b)) {
			r.fail(what, "claims more than the %d bytes left", len(r.b))
			return
		}
		r.b = r.b[payload:]
		if inside == 0 {
			continue
		}
		if depth == maxNesting {
			r.fail(what, "is nested deeper than %d", maxNesting)
			return
		}
		depth++
		left[depth] = inside
	}
}

// head takes the first bytes of any element and returns how many elements are
// inside it and how many bytes of payload follow.
func (r *reader) head(what string) (inside, payload uint64) {
	c := r.code(what)
	switch {
	case c < codeFixMap, c >= codeNegative, c == codeNil, c == codeFalse, c == codeTrue:
		return 0, 0
	case c < codeFixArray:
		return 2 * uint64(c-codeFixMap), 0
	case c < codeFixStr:
		return uint64(c - codeFixArray), 0
	case c < codeNil:
		return 0, uint64(c - codeFixStr)
	case c >= codeBin8 && c <= codeBin32:
		return 0, r.bigEndian(what, 1<<(c-codeBin8))
	case c >= codeExt8 && c <= codeExt32:
		return 0, r.bigEndian(what, 1<<(c-codeExt8)) + 1
	case c == codeFloat32, c == codeFloat64:
		return 0, 4 << (c - codeFloat32)
	case c >= codeUint8 && c <= codeUint64:
		return 0, 1 << (c - codeUint8)
	case c >= codeInt8 && c <= codeInt64:
		return 0, 1 << (c - codeInt8)
	case c >= codeFixExt1 && c <= codeFixExt16:
		return 0, 1<<(c-codeFixExt1) + 1
	case c >= codeStr8 && c <= codeStr32:
		return 0, r.bigEndian(what, 1<<(c-codeStr8))
	case c == codeArray16, c == codeArray32:
		return r.bigEndian(what, 2<<(c-codeArray16)), 0
	case c == codeMap16, c == codeMap32:
		return 2 * r.bigEndian(what, 2<<(c-codeMap16)), 0
	}
	r.fail(what, "type 0x%02x does not exist", c)
	return 0, 0
}
