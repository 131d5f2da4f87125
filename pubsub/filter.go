package pubsub

import (
	"fmt"
	"reflect"
	"strings"

	"padme/pubsub/internal/reliable"
)

// WithFilter delivers to a reader only the samples for which keep returns true. The others
// count as received and use no room in its history. State changes are delivered for the
// instances of which a sample was kept. T must be the topic's type.
//
// keep runs on the goroutines that read from the network. Two of them may call it at once,
// and it may be called again for a sample that arrived too early. So it should be quick,
// must not wait for anything that arrives over the network, and should depend on the sample
// only. It may call functions that do not block, including those of the reader.
func WithFilter[T any](keep func(T) bool) EndpointOption {
	return func(o *endpointOptions) { o.filter = keep }
}

// An Expression decides by the fields of a sample. Their names are those on the wire; a
// sample without fields has a single one, "value". Package filter parses expressions from
// text.
type Expression interface {
	// Names returns the fields that it mentions.
	Names() []string
	// Holds reports whether the expression is true of a sample with these fields. Two
	// goroutines may call it at once. An error says why there is no answer.
	Holds(fields map[string]any) (bool, error)
	// Fixed returns the fields that must have a certain value (a string, int or bool) for it
	// to hold.
	Fixed() map[string]any
	// String returns the expression as users know it.
	String() string
}

// WithExpression is WithFilter by the fields of a sample, for any type:
//
//	x, err := filter.Parse("x > 5 AND name = 'a'")
//	…
//	r, err := pubsub.NewReader(ctx, topic, pubsub.WithExpression(x))
//
// NewReader rejects an expression of package filter that does not fit the types of T's
// fields. If the expression has no answer for a sample, because a field is missing or has
// another type, the sample is dropped with a SampleRejected event. An expression that fixes
// all key fields, as in "robot = 'r1' AND x > 5", makes the reader subscribe to that
// instance only.
func WithExpression(x Expression) EndpointOption {
	return func(o *endpointOptions) { o.expression = x }
}

// keeper decides whether a reader gets the sample encoded in body. It is the user's
// code, as is a decoder: no mutex may be held while it runs. Two goroutines may call it
// at once.
type keeper func(body []byte) (bool, error)

// keeper returns nil if every sample is wanted.
func (t *Topic[T]) keeper(o *endpointOptions) (keeper, error) {
	var all []keeper
	if o.filter != nil {
		keep, ok := o.filter.(func(T) bool)
		if !ok || keep == nil {
			return nil, fmt.Errorf("%w: the filter is a %T, samples of topic %q are of type %s", ErrInvalid, o.filter, t.name, t.typ)
		}
		all = append(all, func(body []byte) (bool, error) {
			var v T
			err := t.codec.decode(body, &v)
			return err == nil && keep(v), err
		})
	}
	if o.expression != nil {
		if v := reflect.ValueOf(o.expression); v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("%w: the expression of the filter is nil: has it been parsed without an error?", ErrInvalid)
		}
		if err := checkFields(o.expression, reflect.TypeFor[T](), t.codec); err != nil {
			return nil, err
		}
		all = append(all, keeperOf(o.expression, t.codec))
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return func(body []byte) (bool, error) {
		for _, keep := range all {
			if ok, err := keep(body); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}, nil
}

func keeperOf(x Expression, codec Codec) keeper {
	return func(body []byte) (bool, error) {
		v, err := codec.decodeAny(body)
		if err != nil {
			return false, err
		}
		fields, ok := v.(map[string]any)
		if !ok {
			fields = map[string]any{"value": v}
		}
		keep, err := x.Holds(fields)
		if err != nil {
			return false, fmt.Errorf("%w: %q: %w", reliable.ErrNoAnswer, x, err)
		}
		return keep, nil
	}
}

// checkFields finds names that no sample of a struct type can have.
func checkFields(x Expression, t reflect.Type, codec Codec) error {
	fields, ok := wireFields(t, codec)
	if !ok {
		return nil
	}
	for _, n := range x.Names() {
		if _, ok := fields[n]; !ok {
			return fmt.Errorf("%w: the filter %q names %q, which is no field of %s as %s writes it", ErrInvalid, x, n, t, codec)
		}
	}
	if typed, ok := x.(interface{ CheckTypes(map[string]any) error }); ok {
		return typed.CheckTypes(plainValues(fields, codec))
	}
	return nil
}

// plainValues has a value of each field whose type on the wire is known: one of a type that
// the language declares, without an option of the codec that writes it as another one.
func plainValues(fields map[string]reflect.StructField, codec Codec) map[string]any {
	values := map[string]any{}
	for name, f := range fields {
		_, option, _ := strings.Cut(f.Tag.Get(string(codec)), ",")
		plain := f.Type.PkgPath() == "" && (f.Type.Kind() == reflect.String || f.Type.Kind() >= reflect.Bool && f.Type.Kind() <= reflect.Float64)
		if plain && (option == "" || option == "omitempty") {
			values[name] = reflect.Zero(f.Type).Interface()
		}
	}
	return values
}
