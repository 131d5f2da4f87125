package pubsub

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Types that write themselves, in whatever way: what they have inside does not matter.
var (
	writeJSON    = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()}
	writeMsgpack = []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}
)

// checkWritable refuses a type of which a codec cannot write a part, so that NewTopic says
// what each Write would. What an interface holds shows with a Write only.
func checkWritable(t reflect.Type, c Codec) error {
	if field, kind := unwritable(t, c, map[reflect.Type]bool{}); kind != "" {
		if field == "" {
			return fmt.Errorf("%w: samples of type %s have a %s, which %s cannot write", ErrInvalid, t, kind, c)
		}
		return fmt.Errorf("%w: field %s is or has a %s, which %s cannot write: leave it out, or tag it %s:\"-\"", ErrInvalid, field, kind, c, c)
	}
	return nil
}

// unwritable finds the first part of t that a codec has no form for: the innermost field
// that it is in, "" if it is in none, and its kind, "" if there is no such part.
func unwritable(t reflect.Type, c Codec, seen map[reflect.Type]bool) (field, kind string) {
	if seen[t] || writesItself(t, c) {
		return "", ""
	}
	seen[t] = true
	switch k := t.Kind(); k {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "", k.String()
	case reflect.Uintptr:
		if c == Msgpack {
			return "", k.String()
		}
	case reflect.Map:
		if field, kind = unwritable(t.Key(), c, seen); kind == "" {
			field, kind = unwritable(t.Elem(), c, seen)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return unwritable(t.Elem(), c, seen)
	case reflect.Struct:
		return unwritableField(t, c, seen)
	}
	return field, kind
}

func unwritableField(t reflect.Type, c Codec, seen map[reflect.Type]bool) (field, kind string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get(string(c)), ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if field, kind = unwritable(f.Type, c, seen); kind == "" {
			continue
		}
		if field == "" {
			field = fmt.Sprintf("%s.%s", t, f.Name)
		}
		return field, kind
	}
	return "", ""
}

// writesItself reports whether a codec leaves the form of t to t.
func writesItself(t reflect.Type, c Codec) bool {
	ways := writeMsgpack
	if c == JSON {
		ways = writeJSON
	}
	return implements(t, ways)
}

func implements(t reflect.Type, ways []reflect.Type) bool {
	for _, way := range ways {
		if t.Implements(way) || reflect.PointerTo(t).Implements(way) {
			return true
		}
	}
	return false
}
