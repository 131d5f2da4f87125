package pack

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	numbers := []uint64{0, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxUint64}
	lengths := []int{0, 1, 31, 32, 255, 256, 65535}
	var b []byte
	for _, v := range numbers {
		b = AppendUint(b, v)
	}
	for _, n := range lengths {
		b = AppendString(b, strings.Repeat("x", n))
		b = AppendBytes(b, bytes.Repeat([]byte{7}, n))
		b = AppendBytes(AppendArray(b, 1), bytes.Repeat([]byte{7}, 2*n))
	}
	b = AppendBool(AppendBool(b, true), false)
	b = AppendArray(b, 15)
	for range 15 {
		b = AppendUint(b, 1)
	}
	r := NewReader(b)
	for _, v := range numbers {
		if got := r.Uint("number", math.MaxUint64); got != v {
			t.Errorf("got %d, want %d", got, v)
		}
	}
	for _, n := range lengths {
		if got := r.String("text", math.MaxUint16); len(got) != n {
			t.Errorf("text of %d bytes, want %d", len(got), n)
		}
		if got := r.Bytes("data", math.MaxUint16); len(got) != n {
			t.Errorf("data of %d bytes, want %d", len(got), n)
		}
		r.Tuple("tuple", 1)
		if got := r.Bytes("data", math.MaxInt); len(got) != 2*n {
			t.Errorf("data of %d bytes, want %d", len(got), 2*n)
		}
	}
	if !r.Bool("yes") || r.Bool("no") {
		t.Error("booleans")
	}
	for range r.Array("array", 15) {
		r.Uint("element", 1)
	}
	if err := r.End("all"); err != nil {
		t.Error(err)
	}
}

// The encoding is msgpack, as others write it.
func TestFormIsMsgpack(t *testing.T) {
	for _, v := range []uint64{0, 200, 70000, math.MaxUint64} {
		var got uint64
		if err := msgpack.Unmarshal(AppendUint(nil, v), &got); err != nil || got != v {
			t.Errorf("%d: got %d, %v", v, got, err)
		}
	}
	b := AppendArray(nil, 3)
	b = AppendBytes(AppendBool(AppendString(b, "crane"), true), []byte{1, 2})
	var got []any
	if err := msgpack.Unmarshal(b, &got); err != nil || len(got) != 3 || got[0] != "crane" || got[1] != true || !bytes.Equal(got[2].([]byte), []byte{1, 2}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestMalformedIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		want string
		b    []byte
		read func(*Reader)
	}{
		{"n: 9 is above 8", []byte{9}, func(r *Reader) { r.Uint("n", 8) }},
		{"n: -1 is negative", []byte{0xff}, func(r *Reader) { r.Uint("n", 8) }},
		{"n: cut short", []byte{codeUint64, 1}, func(r *Reader) { r.Uint("n", 8) }},
		{"n: cut short", nil, func(r *Reader) { r.Uint("n", 8) }},
		{"s: cut short", []byte{codeStr16, 0, 9, 'x'}, func(r *Reader) { _ = r.String("s", 100) }},
		{"s: has 9 bytes, at most 8 are allowed", AppendString(nil, "123456789"), func(r *Reader) { _ = r.String("s", 8) }},
		{`s: "\xff" is not UTF-8`, AppendString(nil, "\xff"), func(r *Reader) { _ = r.String("s", 8) }},
		{"s: type 0x07 is not a string", []byte{7}, func(r *Reader) { _ = r.String("s", 8) }},
		{"b: cut short", []byte{codeBin32, 0, 0, 1, 0}, func(r *Reader) { r.Bytes("b", math.MaxInt) }},
		{"b: has 4294967295 bytes, at most 5 are allowed", []byte{codeBin32, 0xff, 0xff, 0xff, 0xff}, func(r *Reader) { r.Bytes("b", 5) }},
		{"b: type 0xa0 is not binary", []byte{codeFixStr}, func(r *Reader) { r.Bytes("b", 5) }},
		{"a: claims 4294967295 elements in 1 bytes", []byte{codeArray32, 0xff, 0xff, 0xff, 0xff, 1}, func(r *Reader) { r.Array("a", math.MaxInt) }},
		{"a: has 3 elements, at most 2 are allowed", []byte{codeFixArray | 3, 1, 1, 1}, func(r *Reader) { r.Array("a", 2) }},
		{"a: type 0x80 is not an array", []byte{codeFixMap}, func(r *Reader) { r.Array("a", 2) }},
		{"t: has 1 elements, needs 2", []byte{codeFixArray | 1, 1}, func(r *Reader) { r.Tuple("t", 2) }},
		{"f: type 0x01 is not a boolean", []byte{1}, func(r *Reader) { r.Bool("f") }},
		{"all: 1 bytes follow its end", []byte{1, 2}, func(r *Reader) { r.Uint("n", 8) }},
	} {
		r := NewReader(c.b)
		c.read(r)
		err := r.End("all")
		if !errors.Is(err, ErrMalformed) || err.Error() != "malformed: "+c.want {
			t.Errorf("%x: got %v, want %s", c.b, err, c.want)
		}
	}
}
