package pubsub

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// A wireField is a field that a codec writes as one of a struct. Its Index leads to it
// from that struct, through embedded ones.
type wireField struct {
	reflect.StructField
	in    reflect.Type // the struct that declares it
	names []string     // on the wire; after the first those that are only read
}

func (f wireField) String() string { return fmt.Sprintf("%s.%s", f.in, f.Name) }

// A layout is what a codec makes of a struct. It repeats the rules of encoding/json and of
// the msgpack library, which tell nobody what they decided.
type layout struct {
	codec   Codec
	fields  []wireField
	inlined [][]int // the embedded structs whose fields are written as those of the struct
	err     error   // why the codec cannot write the struct, or loses a field of it
}

func layoutOf(t reflect.Type, c Codec) layout {
	if c == JSON {
		return jsonLayout(t)
	}
	return msgpackLayout(t, nil)
}

// inlines reports whether the embedded struct at a path is one of those inlined.
func (l *layout) inlines(path []int) bool {
	return slices.ContainsFunc(l.inlined, func(p []int) bool { return slices.Equal(p, path) })
}

func (l *layout) has(path []int) bool {
	return slices.ContainsFunc(l.fields, func(f wireField) bool { return slices.Equal(f.Index, path) })
}

func (l *layout) refuse(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *layout) refuseTwice(a, b wireField, name string) {
	l.refuse(fmt.Errorf("%w: fields %s and %s are both %q as %s writes them: rename one, or tag it %s:\"-\"", ErrInvalid, a, b, name, l.codec, l.codec))
}

// leftOut reports whether the tag of a codec, or its name, keeps a field from the wire.
func leftOut(f reflect.StructField, c Codec) bool {
	tag := f.Tag.Get(string(c))
	return tag == "-" || c == Msgpack && strings.HasPrefix(tag, "-,") || !f.IsExported() && !f.Anonymous
}

// wireName returns the name of a field by the tag of a codec, "" without one, and the
// options of the tag.
func wireName(f reflect.StructField, c Codec) (name string, options []string) {
	parts := strings.Split(f.Tag.Get(string(c)), ",")
	return parts[0], parts[1:]
}

// structIn returns the struct that an embedded field is or points to, nil if it is none.
func structIn(f reflect.StructField) reflect.Type {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !f.Anonymous || t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// jsonLayout takes the fields as Go's rules have it: of those of one name the one that is
// embedded the least deep. Of two in one depth encoding/json writes one or none.
func jsonLayout(t reflect.Type) layout {
	l := layout{codec: JSON}
	l.collect(t, nil, nil)
	all := map[string][]wireField{}
	for _, f := range l.fields {
		all[f.names[0]] = append(all[f.names[0]], f)
	}
	l.fields = slices.DeleteFunc(l.fields, func(f wireField) bool {
		for _, other := range all[f.names[0]] {
			if len(other.Index) < len(f.Index) {
				return true
			}
		}
		return false
	})
	seen := map[string]wireField{}
	for _, f := range l.fields {
		if other, twice := seen[f.names[0]]; twice {
			l.refuseTwice(other, f, f.names[0])
		}
		seen[f.names[0]] = f
	}
	return l
}

// collect adds all fields of t, at a path, and of what it embeds. inside are the structs
// that t is embedded in: what it repeats of them is hidden by theirs.
func (l *layout) collect(t reflect.Type, at []int, inside []reflect.Type) {
	if slices.Contains(inside, t) {
		return
	}
	inside = append(slices.Clip(inside), t)
	for i := range t.NumField() {
		f := t.Field(i)
		path := append(slices.Clip(at), i)
		name, _ := wireName(f, JSON)
		embedded := structIn(f)
		switch {
		case leftOut(f, JSON) || !f.IsExported() && embedded == nil:
		case embedded != nil && name == "":
			l.inlined = append(l.inlined, path)
			l.collect(embedded, path, inside)
		default:
			if name == "" {
				name = f.Name
			}
			f.Index = path
			l.fields = append(l.fields, wireField{f, t, []string{name}})
		}
	}
}

// Types that read themselves from msgpack; see writeMsgpack.
var readMsgpack = []reflect.Type{
	reflect.TypeFor[msgpack.CustomDecoder](), reflect.TypeFor[msgpack.Unmarshaler](),
	reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// msgpackLayout takes the fields in their order, as the library does. An embedded struct
// becomes a field of its own if one of its names is taken already, but not if one is taken
// later: then both are written. inside are the structs that t is embedded in.
func msgpackLayout(t reflect.Type, inside []reflect.Type) layout {
	l := layout{codec: Msgpack}
	if slices.Contains(inside, t) {
		l.refuse(fmt.Errorf("%w: %s embeds itself, which msgpack cannot write: make that a field with a name", ErrInvalid, t))
		return l
	}
	taken := map[string]bool{} // whether it is written, not only read
	inside = append(slices.Clip(inside), t)
	for i := range t.NumField() {
		f := t.Field(i)
		if leftOut(f, Msgpack) {
			continue
		}
		field := msgpackField(f, t)
		if inner, ok := inlinedMsgpack(f, taken, inside); ok {
			l.inlined = append(l.inlined, f.Index)
			l.refuse(inner.err)
			for _, path := range inner.inlined {
				l.inlined = append(l.inlined, slices.Concat(f.Index, path))
			}
			for _, in := range inner.fields {
				in.Index = slices.Concat(f.Index, in.Index)
				in.names = in.names[:1]
				l.take(taken, in, true)
			}
			l.take(taken, field, false) // it is read under its own name, too
		} else {
			l.take(taken, field, true)
		}
	}
	return l
}

// take adds a field that is written, or notes only that its names are read. What is read
// under a name that another field was written under before goes astray; one that is written
// later takes the name over.
func (l *layout) take(taken map[string]bool, f wireField, written bool) {
	for i, name := range f.names {
		if taken[name] {
			l.refuseTwice(l.named(name), f, name)
		}
		taken[name] = taken[name] || written && i == 0
	}
	if written {
		l.fields = append(l.fields, f)
	}
}

// named is the field that is written under a name.
func (l *layout) named(name string) wireField {
	return l.fields[slices.IndexFunc(l.fields, func(f wireField) bool { return f.names[0] == name })]
}

func msgpackField(f reflect.StructField, in reflect.Type) wireField {
	name, options := wireName(f, Msgpack)
	if name == "" {
		name = f.Name
	}
	names := []string{name}
	for _, o := range options {
		if alias, ok := strings.CutPrefix(o, "alias:"); ok {
			names = append(names, alias)
		}
	}
	return wireField{f, in, names}
}

// inlinedMsgpack returns the layout of an embedded struct, and whether it is inlined. A name
// in the tag does not matter to the library.
func inlinedMsgpack(f reflect.StructField, taken map[string]bool, inside []reflect.Type) (layout, bool) {
	t := structIn(f)
	_, options := wireName(f, Msgpack)
	if t == nil || slices.Contains(options, "noinline") {
		return layout{}, false
	}
	if slices.Contains(options, "inline") {
		return msgpackLayout(t, inside), true
	}
	if writesItself(t, Msgpack) || implements(t, readMsgpack) {
		return layout{}, false
	}
	inner := msgpackLayout(t, inside)
	return inner, !slices.ContainsFunc(inner.fields, func(f wireField) bool {
		_, twice := taken[f.names[0]]
		return twice
	})
}

// checkNames refuses a type with two fields of one name in a struct anywhere: msgpack would
// write both, which no reader can read, and JSON none or one of them.
func checkNames(t reflect.Type, c Codec) error {
	return checkNamesIn(t, c, map[reflect.Type]bool{})
}

func checkNamesIn(t reflect.Type, c Codec, seen map[reflect.Type]bool) error {
	if seen[t] || writesItself(t, c) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map:
		if err := checkNamesIn(t.Key(), c, seen); err != nil {
			return err
		}
		return checkNamesIn(t.Elem(), c, seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkNamesIn(t.Elem(), c, seen)
	case reflect.Struct:
		l := layoutOf(t, c)
		for _, f := range l.fields {
			if l.err == nil {
				l.err = checkNamesIn(f.Type, c, seen)
			}
		}
		return l.err
	}
	return nil
}

// wireFields finds the fields of a struct by their names on the wire. It reports false if t
// is no struct, or one without fields.
func wireFields(t reflect.Type, codec Codec) (fields map[string]reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	fields = map[string]reflect.StructField{}
	for _, f := range layoutOf(t, codec).fields {
		fields[f.names[0]] = f.StructField
	}
	return fields, len(fields) > 0
}
