package pack

// maxNesting bounds the arrays and maps inside an element that is skipped.
const maxNesting = 16

// Skip passes over n elements of any type. It keeps the elements still to come
// of each open array or map on a stack of fixed size, so a stranger's nesting
// costs neither memory nor recursion.
func (r *Reader) Skip(what string, n int) {
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
			r.Fail(what, "claims more than the %d bytes left", len(r.b))
			return
		}
		r.b = r.b[payload:]
		if inside == 0 {
			continue
		}
		if depth == maxNesting {
			r.Fail(what, "is nested deeper than %d", maxNesting)
			return
		}
		depth++
		left[depth] = inside
	}
}

// head takes the first bytes of any element and returns how many elements are
// inside it and how many bytes of payload follow.
func (r *Reader) head(what string) (inside, payload uint64) {
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
	r.Fail(what, "type 0x%02x does not exist", c)
	return 0, 0
}
