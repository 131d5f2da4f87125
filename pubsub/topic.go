package pubsub

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"padme/pubsub/internal/wire"
)

// A Topic is a named stream of samples of type T in the participant's domain. Fields of T
// tagged pubsub:"key" (strings, integers, bools) distinguish instances, for example robots
// by their number. History, disposal and order are per instance. Without a key there is one
// instance.
//
// Key fields of a struct that T embeds by value are keys of T. A tag at a deeper level,
// where it would have no effect, is rejected, unless the field that leads to it is tagged
// pubsub:"-", which says that it contains no key.
type Topic[T any] struct {
	p      *Participant
	name   string
	codec  Codec
	typ    string
	schema uint64
	keys   [][]int           // paths, as of reflect.Value.FieldByIndex
	fields map[string]string // by their names on the wire
	data   map[string]string
}

// TopicOption configures NewTopic.
type TopicOption func(*topicOptions) error

type topicOptions struct {
	codec Codec
	data  map[string]string
}

// WithCodec sets the encoding of samples; the default is Msgpack. Writers and readers of a
// topic must agree.
func WithCodec(c Codec) TopicOption {
	return func(o *topicOptions) error {
		o.codec = c
		if c != Msgpack && c != JSON {
			return fmt.Errorf("%w: there is no codec %q, there are Msgpack and JSON", ErrInvalid, c)
		}
		return nil
	}
}

// NewTopic describes a topic; nothing is sent. The name is 1 to 128 bytes of UTF-8. A type
// that the codec cannot encode, such as one with a func or a channel, is rejected with
// ErrInvalid, which names the field. So is a type with duplicate names on the wire. For
// duplicate names, msgpack writes both the outer and the embedded field. JSON follows Go's
// shadowing rules, by which only the outer field is written, so with JSON only duplicates
// at the same depth are rejected.
//
// Writers and readers with another type or codec under the same name do not match and get
// an InconsistentTopic event. A participant that Join has not returned, such as the nil one
// that came with an error, is rejected with ErrClosed.
func NewTopic[T any](p *Participant, name string, opts ...TopicOption) (*Topic[T], error) {
	if p == nil || p.ctx == nil {
		return nil, neverJoined().Err()
	}
	typ := reflect.TypeFor[T]()
	t := &Topic[T]{p: p, name: name, typ: typ.String()}
	set := topicOptions{codec: Msgpack}
	if _, err := EncodeLevel(name); err != nil {
		return nil, fmt.Errorf("topic name: %w", err)
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&set); err != nil {
			return nil, err
		}
	}
	t.codec, t.data = set.codec, set.data
	var err error
	if err := checkWritable(typ, t.codec); err != nil {
		return nil, err
	}
	if err := checkNames(typ, t.codec); err != nil {
		return nil, err
	}
	if t.keys, err = keyFields(typ, t.codec); err != nil {
		return nil, err
	}
	t.schema, t.fields = schemaHash(typ, t.codec), fieldsOf(typ, t.keys, t.codec)
	return t, nil
}

// Name returns the name given to NewTopic.
func (t *Topic[T]) Name() string {
	if t.made() != nil {
		return ""
	}
	return t.name
}

// EndpointOption configures NewWriter and NewReader.
type EndpointOption func(*endpointOptions)

type endpointOptions struct {
	QoS
	filter     any // func(T) bool
	expression Expression
	instance   any // T
	data       map[string]string
	coalescing time.Duration
	patience   time.Duration // with writers that died; 0 is the default
}

// WithQoS sets the policies of a writer or reader.
func WithQoS(q QoS) EndpointOption {
	return func(o *endpointOptions) { o.QoS = q }
}

// checkWriter refuses what only a reader can have: a writer would ignore it.
func (o *endpointOptions) checkWriter() error {
	if o.filter != nil || o.expression != nil || o.instance != nil {
		return fmt.Errorf("%w: a filter is for readers, a writer has none", ErrInvalid)
	}
	if err := o.checkCoalescing(); err != nil {
		return err
	}
	return o.QoS.checkWriter()
}

func gather(opts []EndpointOption) (o endpointOptions, err error) {
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return o, o.validate()
}

// key returns the unencoded key level of v.
func (t *Topic[T]) key(v T) string {
	return keyText(reflect.ValueOf(&v).Elem(), t.keys)
}

// encodeSample makes the body of a sample, and returns the buffer that it is in, or nil.
func (t *Topic[T]) encodeSample(v T) (body []byte, in *wire.Buffer, err error) {
	body, in, err = t.codec.encode(v)
	if err != nil {
		err = fmt.Errorf("pubsub: sample of topic %q cannot be encoded: %w", t.name, err)
	} else {
		err = checkPayload(body)
	}
	return body, in, err
}

// encodeKey makes the body that tells which instance is disposed, as encodeSample does.
func (t *Topic[T]) encodeKey(v T) (body []byte, in *wire.Buffer, err error) {
	if len(t.keys) == 0 {
		return []byte{}, nil, nil
	}
	return t.codec.encode(keyOnly(reflect.ValueOf(&v).Elem(), t.keys).Interface())
}

// unmatched says that fewer match than were waited for.
func (t *Topic[T]) unmatched(ctx context.Context, whom string, have, want int, err error) error {
	return fmt.Errorf("pubsub: %d of %d %s of topic %q match: %w", have, want, whom, t.name, t.p.outage(ctx, t.p.exchange.data, err))
}
