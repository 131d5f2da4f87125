package pubsub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"padme/pubsub/internal/level"
)

// noKey is the key level of a topic whose type has no key: all its samples are
// of one instance.
const noKey = "-"

// keyFields finds the fields tagged pubsub:"key", of t and of structs that it embeds, as
// paths from t. A tag elsewhere is refused: the user expects instances that would not be.
func keyFields(t reflect.Type, c Codec) ([][]int, error) {
	s := keySearch{of: t, codec: c, counted: map[reflect.Type]bool{}}
	if t.Kind() != reflect.Struct {
		if at, f, ok := s.tagIn(t); ok {
			return nil, s.refuse(at, f, fmt.Sprintf("of which only a struct has one: make %s the topic's type, or a field tagged pubsub:\"-\" of a struct", at))
		}
		return nil, nil
	}
	s.layout = layoutOf(t, c)
	err := s.fields(t, nil)
	for _, check := range s.rest {
		if err == nil {
			err = check()
		}
	}
	return s.keys, err
}

// A keySearch collects the keys of a type.
type keySearch struct {
	of      reflect.Type
	codec   Codec
	layout  layout
	keys    [][]int
	counted map[reflect.Type]bool // structs whose tags have an effect, or that were looked into
	rest    []func() error        // what has to be looked at when all of those are known
}

// fields searches t, which is the type itself or embedded at a path.
func (s *keySearch) fields(t reflect.Type, at []int) error {
	s.counted[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		path := append(slices.Clip(at), i)
		tag, tagged := f.Tag.Lookup("pubsub")
		switch {
		case tag == "-":
		case tagged:
			if err := s.add(t, f, path); err != nil {
				return err
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct && s.layout.inlines(path):
			if err := s.fields(f.Type, path); err != nil {
				return err
			}
		default:
			s.rest = append(s.rest, func() error { return s.noTag(t, f, path) })
		}
	}
	return nil
}

func (s *keySearch) add(t reflect.Type, f reflect.StructField, path []int) error {
	if err := checkKey(t, f); err != nil {
		return err
	}
	if !leftOut(f, s.codec) && !s.layout.has(path) {
		return fmt.Errorf("%w: key field %s.%s is hidden by another one of its name in %s: rename one", ErrInvalid, t, f.Name, s.of)
	}
	s.keys = append(s.keys, path)
	return nil
}

// checkKey refuses a tagged field that cannot be a key.
func checkKey(t reflect.Type, f reflect.StructField) error {
	if tag := f.Tag.Get("pubsub"); tag != "key" {
		return fmt.Errorf("%w: field %s.%s has the tag pubsub:%q, there are only pubsub:\"key\" and pubsub:\"-\"", ErrInvalid, t, f.Name, tag)
	}
	if !f.IsExported() {
		return fmt.Errorf("%w: key field %s.%s is not exported", ErrInvalid, t, f.Name)
	}
	switch k := f.Type.Kind(); {
	case k == reflect.String, k == reflect.Bool, k >= reflect.Int && k <= reflect.Uintptr:
		return nil
	default:
		return fmt.Errorf("%w: key field %s.%s is a %s, a key must be a string, integer or bool", ErrInvalid, t, f.Name, k)
	}
}

// noTag refuses a field of t that has a tag inside.
func (s *keySearch) noTag(t reflect.Type, f reflect.StructField, path []int) error {
	if leftOut(f, s.codec) && !f.Anonymous {
		return nil
	}
	at, key, ok := s.tagIn(f.Type)
	switch {
	case !ok:
		return nil
	case s.layout.inlines(path):
		return s.refuse(at, key, fmt.Sprintf("through a pointer that may be nil: embed %s by value", f.Type.Elem()))
	case structIn(f) != nil:
		return s.refuse(at, key, fmt.Sprintf("but %s does not write field %s.%s as fields of %s: change its %s tag, or rename what has a name of its fields", s.codec, t, f.Name, t, s.codec))
	}
	return s.refuse(at, key, fmt.Sprintf("but not of %s itself: move it there or into a struct that it embeds, or tag field %s.%s pubsub:\"-\" to have no keys of it", s.of, t, f.Name))
}

func (s *keySearch) refuse(t reflect.Type, f reflect.StructField, why string) error {
	if err := checkKey(t, f); err != nil {
		return err
	}
	return fmt.Errorf("%w: key field %s.%s is in a part of %s, %s", ErrInvalid, t, f.Name, s.of, why)
}

// tagIn finds the first field with a tag in t that has no effect, and its struct.
func (s *keySearch) tagIn(t reflect.Type) (in reflect.Type, field reflect.StructField, ok bool) {
	if s.counted[t] || writesItself(t, s.codec) { // what writes itself has no fields on the wire
		return nil, field, false
	}
	s.counted[t] = true
	switch t.Kind() {
	case reflect.Map:
		if in, field, ok = s.tagIn(t.Key()); !ok {
			in, field, ok = s.tagIn(t.Elem())
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return s.tagIn(t.Elem())
	case reflect.Struct:
		return s.tagInFields(t)
	}
	return in, field, ok
}

func (s *keySearch) tagInFields(t reflect.Type) (in reflect.Type, field reflect.StructField, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("pubsub")
		if tagged && tag != "-" {
			return t, f, true
		}
		if tagged || leftOut(f, s.codec) {
			continue
		}
		if in, field, ok = s.tagIn(f.Type); ok {
			return in, field, ok
		}
	}
	return nil, field, false
}

// isKey reports whether a field is one of the keys.
func isKey(keys [][]int, f reflect.StructField) bool {
	return slices.ContainsFunc(keys, func(path []int) bool { return slices.Equal(path, f.Index) })
}

// keyText is the unencoded key level of v: the text of its key fields, joined by
// commas. What no topic level can carry becomes "=" and a hash.
func keyText(v reflect.Value, keys [][]int) string {
	if len(keys) == 0 {
		return noKey
	}
	var parts []string
	for _, i := range keys {
		parts = append(parts, fieldText(v.FieldByIndex(i), len(keys) > 1))
	}
	text := strings.Join(parts, ",")
	if _, err := level.Check(text); err == nil && text[0] != '=' {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "=" + hex.EncodeToString(sum[:16])
}

func fieldText(f reflect.Value, joined bool) string {
	switch k := f.Kind(); {
	case k == reflect.String && joined: // a comma within must not look like one between
		return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(f.String())
	case k == reflect.String:
		return f.String()
	case k == reflect.Bool:
		return strconv.FormatBool(f.Bool())
	case f.CanInt():
		return strconv.FormatInt(f.Int(), 10)
	}
	return strconv.FormatUint(f.Uint(), 10)
}

// keyOnly returns a copy of v with nothing but its key fields.
func keyOnly(v reflect.Value, keys [][]int) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	for _, i := range keys {
		out.FieldByIndex(i).Set(v.FieldByIndex(i))
	}
	return out
}
