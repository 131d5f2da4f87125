package pubsub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// Codec is the encoding of samples on the wire.
type Codec string

// Codecs.
const (
	// Msgpack is the default: small, structs as maps.
	Msgpack Codec = "msgpack"
	// JSON can be read by anything that speaks MQTT. A message is one JSON object, or with
	// WithCoalescing several, one after the other. It has the sample as "data", and next to
	// it what readers need, such as its number; docs/topics.md names the fields.
	JSON Codec = "json"
)

// encode returns what goes into an envelope's body, and the buffer that it is in, or nil.
func (c Codec) encode(v any) (body []byte, in *wire.Buffer, err error) {
	if c == JSON {
		body, err = json.Marshal(v)
		return body, nil, err
	}
	in = reliable.NewBuffer()
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(in)
	enc.UseCompactInts(true)
	err = enc.Encode(v)
	return in.Body(), in, err
}

// decode reads a body from the network.
func (c Codec) decode(body []byte, v any) error {
	if c == JSON {
		return json.Unmarshal(body, v)
	}
	if rest, err := wire.SkipValue(body); err != nil || len(rest) > 0 {
		return wire.ErrMsgpack
	}
	return msgpack.Unmarshal(body, v)
}

// decodeAny reads a body without a type to decode it into. Whole numbers stay whole.
func (c Codec) decodeAny(body []byte) (v any, err error) {
	if c != JSON {
		err = c.decode(body, &v)
		return v, err
	}
	if !json.Valid(body) {
		return nil, c.decode(body, &v) // says why
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return withNumbers(v), nil
}

// withNumbers replaces the numbers of JSON by those of Go.
func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // beyond all numbers it is infinite
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withNumbers(v[k])
		}
	}
	return v
}

// schemaHash identifies the shape of t: names and kinds of the exported fields,
// as deep as they go, and which are keys. It is never 0.
func schemaHash(t reflect.Type, c Codec) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s:", c)
	describe(t, map[reflect.Type]int{}, func(s string) { h.Write([]byte(s)) })
	return max(h.Sum64(), 1)
}

func describe(t reflect.Type, seen map[reflect.Type]int, write func(string)) {
	if n, again := seen[t]; again {
		write(fmt.Sprintf("^%d", n))
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		seen[t] = len(seen)
		write("{")
		for i := range t.NumField() {
			f := t.Field(i)
			if f.IsExported() || f.Anonymous { // what is embedded may have exported fields
				write(fmt.Sprintf("%s %q ", f.Name, f.Tag))
				describe(f.Type, seen, write)
				write(";")
			}
		}
		write("}")
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		seen[t] = len(seen)
		write(t.Kind().String() + "(")
		if t.Kind() == reflect.Map {
			describe(t.Key(), seen, write)
			write(",")
		}
		describe(t.Elem(), seen, write)
		write(")")
		delete(seen, t)
	default:
		write(t.Kind().String())
	}
}
