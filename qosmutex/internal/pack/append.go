package pack

import "encoding/binary"

// Codes of the msgpack format.
const (
	codeFixMap   = 0x80
	codeFixArray = 0x90
	codeFixStr   = 0xa0
	codeNil      = 0xc0
	codeFalse    = 0xc2
	codeTrue     = 0xc3
	codeBin8     = 0xc4
	codeBin16    = 0xc5
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

// AppendUint appends an unsigned integer in its shortest form: most fit in one byte.
func AppendUint(dst []byte, v uint64) []byte {
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

// AppendInt appends an integer in its shortest form.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
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

// AppendBool appends a boolean.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendString appends text.
func AppendString(dst []byte, s string) []byte {
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

// AppendBytes appends binary data.
func AppendBytes(dst, b []byte) []byte {
	switch n := len(b); {
	case n < 1<<8:
		dst = append(dst, codeBin8, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, codeBin16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, codeBin32), uint32(n))
	}
	return append(dst, b...)
}

// AppendArray appends the head of an array of n elements, which must follow.
func AppendArray(dst []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(dst, codeFixArray|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, codeArray16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeArray32), uint32(n))
}
