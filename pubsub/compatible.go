package pubsub

import (
	"hash/fnv"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"padme/pubsub/internal/discovery"
)

const (
	// maxFields bounds the fields of a type that an announcement lists; of a wider
	// type only the same is compatible.
	maxFields = 64
	// maxFieldText bounds the description of one; a longer one is hashed.
	maxFieldText = 24
)

// fieldsOf describes the fields of a struct by their names on the wire: "float64",
// "key string", or a hash. It is nil for other types.
func fieldsOf(t reflect.Type, keys [][]int, codec Codec) map[string]string {
	fields, ok := wireFields(t, codec)
	if !ok || len(fields) > maxFields {
		return nil
	}
	out := map[string]string{}
	for name, f := range fields {
		var text strings.Builder
		describe(f.Type, map[reflect.Type]int{}, func(s string) { text.WriteString(s) })
		out[name] = text.String()
		if text.Len() > maxFieldText {
			h := fnv.New64a()
			h.Write([]byte(text.String()))
			out[name] = strconv.FormatUint(h.Sum64(), 36)
		}
		if isKey(keys, f) {
			out[name] = discovery.KeyMark + out[name]
		}
	}
	return out
}

// WithEndpointData announces data with a writer or reader (USER_DATA); its peers see it in
// Matched. An announcement may have 16 KiB in all.
func WithEndpointData(data map[string]string) EndpointOption {
	return func(o *endpointOptions) { o.data = maps.Clone(data) }
}

// WithTopicData announces data with every writer and reader of the topic (TOPIC_DATA);
// their peers see it in Matched.
func WithTopicData(data map[string]string) TopicOption {
	return func(o *topicOptions) error {
		o.data = maps.Clone(data)
		return nil
	}
}

// A Peer is a matching writer or reader, as it was announced.
type Peer struct {
	GUID        GUID
	Type        string // of its samples, as it names it
	Reliability Reliability
	Durability  Durability
	Partition   []string          // none is "default"
	UserData    map[string]string // see WithEndpointData
	TopicData   map[string]string // see WithTopicData
}

// Matched returns the readers that match, in no order.
func (w *Writer[T]) Matched() []Peer {
	if w.made() != nil {
		return nil
	}
	return w.topic.p.exchange.matched(w.ep)
}

// Matched returns the writers that match, in no order.
func (r *Reader[T]) Matched() []Peer {
	if r.made() != nil {
		return nil
	}
	return r.topic.p.exchange.matched(r.ep)
}

func (x *exchange) matched(l *localEndpoint) (all []Peer) {
	for _, e := range x.p.directory.Matches(l.Local) {
		all = append(all, Peer{
			GUID(e.GUID), e.Type, Reliability(e.QoS.Reliability), Durability(e.QoS.Durability), append([]string(nil), e.QoS.Partition...),
			maps.Clone(e.UserData), maps.Clone(e.TopicData),
		})
	}
	return all
}
