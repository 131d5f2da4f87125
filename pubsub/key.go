package pubsub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"padme/pubsub/internal/level"
)

// noKey is the key level of a topic whose type has no key: all its samples are
// of one instance.
const noKey = "-"

// keyFields finds the fields tagged pubsub:"key".
func keyFields(t reflect.Type) ([]int, error) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	var keys []int
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("pubsub")
		if !tagged {
			continue
		}
		if tag != "key" {
			return nil, fmt.Errorf("%w: field %s.%s has the tag pubsub:%q, there is only pubsub:\"key\"", ErrInvalid, t, f.Name, tag)
		}
		if !f.IsExported() {
			return nil, fmt.Errorf("%w: key field %s.%s is not exported", ErrInvalid, t, f.Name)
		}
		switch k := f.Type.Kind(); {
		case k == reflect.String, k == reflect.Bool, k >= reflect.Int && k <= reflect.Uintptr:
			keys = append(keys, i)
		default:
			return nil, fmt.Errorf("%w: key field %s.%s is a %s, a key must be a string, integer or bool", ErrInvalid, t, f.Name, k)
		}
	}
	return keys, nil
}

// keyText is the unencoded key level of v: the text of its key fields, joined by
// commas. What no topic level can carry becomes "=" and a hash.
func keyText(v reflect.Value, keys []int) string {
	if len(keys) == 0 {
		return noKey
	}
	var parts []string
	for _, i := range keys {
		parts = append(parts, fieldText(v.Field(i), len(keys) > 1))
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
func keyOnly(v reflect.Value, keys []int) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	for _, i := range keys {
		out.Field(i).Set(v.Field(i))
	}
	return out
}
