package pubsub

import (
	"fmt"
	"reflect"
)

// WithInstance delivers to a reader only the instance that v's key fields name. The reader
// subscribes to that instance only, so samples of others cost it nothing. T must be the
// topic's type and have a key.
func WithInstance[T any](v T) EndpointOption {
	return func(o *endpointOptions) { o.instance = v }
}

// only returns the key of the one instance that a reader wants, "" for all.
func (t *Topic[T]) only(o *endpointOptions) (string, error) {
	if o.instance != nil {
		v, ok := o.instance.(T)
		if !ok || len(t.keys) == 0 {
			return "", fmt.Errorf("%w: WithInstance has a %T, samples of topic %q are of type %s with %d key fields", ErrInvalid, o.instance, t.name, t.typ, len(t.keys))
		}
		return t.key(v), nil
	}
	if o.expression == nil {
		return "", nil
	}
	return fixedInstance(o.expression, reflect.TypeFor[T](), t.keys, t.codec), nil
}

// fixedInstance returns the key that an expression fixes, "" if it does not.
func fixedInstance(x Expression, t reflect.Type, keys [][]int, codec Codec) string {
	fields, ok := wireFields(t, codec)
	if !ok || len(keys) == 0 {
		return ""
	}
	v := reflect.New(t).Elem()
	found := 0
	for name, value := range x.Fixed() {
		f, ok := fields[name]
		if !ok || !isKey(keys, f) {
			continue
		}
		if !setConstant(v.FieldByIndex(f.Index), value) {
			return ""
		}
		found++
	}
	if found < len(keys) {
		return ""
	}
	return keyText(v, keys)
}

// setConstant reports whether a field can have a value.
func setConstant(f reflect.Value, value any) bool {
	switch value := value.(type) {
	case string:
		if f.Kind() == reflect.String {
			f.SetString(value)
			return true
		}
	case bool:
		if f.Kind() == reflect.Bool {
			f.SetBool(value)
			return true
		}
	case int:
		switch {
		case f.CanInt() && !f.OverflowInt(int64(value)):
			f.SetInt(int64(value))
			return true
		case f.CanUint() && value >= 0 && !f.OverflowUint(uint64(value)):
			f.SetUint(uint64(value))
			return true
		}
	}
	return false
}
