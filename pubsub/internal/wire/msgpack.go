package wire

import (
	"encoding/binary"
	"errors"
	"math"
)

// This file reads and writes the part of msgpack that envelopes need. Reading
// never trusts a length and never recurses: a stranger's five bytes can neither
// allocate a gigabyte nor overflow the stack.

// maxDepth bounds the nesting of arrays and maps in anything received.
const maxDepth = 32

// ErrMsgpack says that bytes are not what they should be.
var ErrMsgpack = errors.New("pubsub: malformed msgpack")

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendStr(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

func appendBin(b, data []byte) []byte { return append(appendBinHead(b, len(data)), data...) }

// appendBinHead appends what comes before a bin of n bytes.
func appendBinHead(b []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
}

// readUint reads a non-negative integer.
func readUint(b []byte) (v uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, ErrMsgpack
	}
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:], nil
	}
	if b[0] < 0xcc || b[0] > 0xcf {
		return 0, nil, ErrMsgpack
	}
	return bigEndian(b[1:], 1<<(b[0]-0xcc))
}

// readInt reads an integer.
func readInt(b []byte) (v int64, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0] >= 0xe0:
		return int64(int8(b[0])), b[1:], nil
	case len(b) > 0 && b[0] >= 0xd0 && b[0] <= 0xd3:
		n := 1 << (b[0] - 0xd0)
		u, rest, err := bigEndian(b[1:], n)
		unused := 64 - 8*n // bits, which the sign fills
		return int64(u<<unused) >> unused, rest, err
	}
	u, rest, err := readUint(b)
	if err == nil && u > math.MaxInt64 {
		err = ErrMsgpack
	}
	return int64(u), rest, err
}

// readBytes reads the content of a str or bin without copying it.
func readBytes(b []byte) (data, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, ErrMsgpack
	}
	var n uint64
	switch c := b[0]; {
	case c >= 0xa0 && c <= 0xbf:
		n, rest = uint64(c&31), b[1:]
	case c >= 0xc4 && c <= 0xc6:
		n, rest, err = bigEndian(b[1:], 1<<(c-0xc4))
	case c >= 0xd9 && c <= 0xdb:
		n, rest, err = bigEndian(b[1:], 1<<(c-0xd9))
	default:
		return nil, nil, ErrMsgpack
	}
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, ErrMsgpack
	}
	return rest[:n:n], rest[n:], nil
}

// readArray and readMap read a header; n is not larger than what follows allows.
func readArray(b []byte) (n int, rest []byte, err error) { return readHeader(b, 0x90, 0xdc, 1) }
func readMap(b []byte) (n int, rest []byte, err error)   { return readHeader(b, 0x80, 0xde, 2) }

func readHeader(b []byte, fix, long byte, each uint64) (int, []byte, error) {
	if len(b) == 0 {
		return 0, nil, ErrMsgpack
	}
	var n uint64
	var rest []byte
	var err error
	switch {
	case b[0]&0xf0 == fix:
		n, rest = uint64(b[0]&15), b[1:]
	case b[0] == long:
		n, rest, err = bigEndian(b[1:], 2)
	case b[0] == long+1:
		n, rest, err = bigEndian(b[1:], 4)
	default:
		return 0, nil, ErrMsgpack
	}
	if err != nil || n*each > uint64(len(rest)) {
		return 0, nil, ErrMsgpack
	}
	return int(n), rest, nil
}

func bigEndian(b []byte, n int) (uint64, []byte, error) {
	if len(b) < n {
		return 0, nil, ErrMsgpack
	}
	var v uint64
	for _, c := range b[:n] {
		v = v<<8 | uint64(c)
	}
	return v, b[n:], nil
}

// SkipValue returns what follows the first value of b. It accepts nothing whose
// decoding could allocate more than a small multiple of len(b) or nest deeper
// than maxDepth.
func SkipValue(b []byte) ([]byte, error) {
	var open [maxDepth]uint64 // values still to come, per open array or map
	depth := 0
	for {
		n, inner, rest, err := skipOne(b)
		if err != nil || n > uint64(len(rest)) {
			return nil, ErrMsgpack
		}
		b = rest[n:]
		if inner > uint64(len(b)) {
			return nil, ErrMsgpack
		}
		if inner > 0 {
			if depth == maxDepth {
				return nil, ErrMsgpack
			}
			open[depth] = inner
			depth++
			continue
		}
		for depth > 0 {
			if open[depth-1]--; open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return b, nil
		}
	}
}

// skipOne reads one type byte with its length: n bytes of content and inner
// nested values follow.
func skipOne(b []byte) (n, inner uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, 0, nil, ErrMsgpack
	}
	c, b := b[0], b[1:]
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
		return 0, 0, b, nil
	case c <= 0x8f:
		return 0, 2 * uint64(c&15), b, nil
	case c <= 0x9f:
		return 0, uint64(c & 15), b, nil
	case c <= 0xbf:
		return uint64(c & 31), 0, b, nil
	case c >= 0xc4 && c <= 0xc6:
		n, rest, err = bigEndian(b, 1<<(c-0xc4))
	case c >= 0xc7 && c <= 0xc9: // ext: the type byte comes after the length
		n, rest, err = bigEndian(b, 1<<(c-0xc7))
		n++
	case c == 0xca, c == 0xce, c == 0xd2:
		return 4, 0, b, nil
	case c == 0xcb, c == 0xcf, c == 0xd3:
		return 8, 0, b, nil
	case c == 0xcc, c == 0xd0:
		return 1, 0, b, nil
	case c == 0xcd, c == 0xd1:
		return 2, 0, b, nil
	case c >= 0xd4 && c <= 0xd8:
		return 1 + 1<<(c-0xd4), 0, b, nil
	case c >= 0xd9 && c <= 0xdb:
		n, rest, err = bigEndian(b, 1<<(c-0xd9))
	case c == 0xdc, c == 0xdd:
		inner, rest, err = bigEndian(b, 2<<(c-0xdc))
	case c == 0xde, c == 0xdf:
		inner, rest, err = bigEndian(b, 2<<(c-0xde))
		inner *= 2
	default: // 0xc1 is never used
		err = ErrMsgpack
	}
	return n, inner, rest, err
}
