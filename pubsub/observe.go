package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An Announcement is a writer or reader of the domain, as it announced itself.
type Announcement struct {
	GUID  GUID
	Kind  string // "writer" or "reader"
	Topic string
	Type  string // of its samples, in its own words
	Codec Codec
	// QoS has the policies that both sides must know; the others are zero.
	QoS       QoS
	Instance  string            // the only one that a reader wants, "" for all
	Alive     bool              // false: its participant is gone without having withdrawn it
	UserData  map[string]string // see WithEndpointData
	TopicData map[string]string // see WithTopicData

	json endpointJSON
}

// Endpoints returns all writers and readers of the domain that the broker knows,
// those of this participant included, by topic and then by participant. It blocks
// until the broker has told all that it keeps, or ctx ends. Errors: ErrRefused,
// ErrClosed.
func (p *Participant) Endpoints(ctx context.Context) ([]Announcement, error) {
	x := &p.exchange
	if err := x.start(ctx); err != nil {
		return nil, fmt.Errorf("pubsub: endpoints of the domain: %w", err)
	}
	if err := x.caughtUp(ctx); err != nil {
		return nil, fmt.Errorf("pubsub: endpoints of the domain: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Announcement
	for _, of := range x.remote {
		for _, e := range of {
			all = append(all, x.describe(e))
		}
	}
	slices.SortFunc(all, func(a, b Announcement) int {
		return strings.Compare(a.Topic+"\x00"+a.GUID.String(), b.Topic+"\x00"+b.GUID.String())
	})
	return all, nil
}

func (x *exchange) describe(e *endpoint) Announcement {
	return Announcement{
		GUID: e.guid, Kind: e.Kind, Topic: e.Topic, Type: e.Type, Codec: e.Codec,
		QoS: e.QoS.policies(), Instance: e.QoS.Instance, Alive: x.alive[e.guid.Participant].counts(e),
		UserData: maps.Clone(e.UserData), TopicData: maps.Clone(e.TopicData),
		json: e.endpointJSON,
	}
}

// policies are those of an announcement.
func (o *offer) policies() QoS {
	return QoS{
		Reliability: o.Reliability, Durability: o.Durability,
		Deadline: o.Deadline, Liveliness: o.Liveliness, LivelinessLease: o.Lease,
		Exclusive: o.Exclusive, Strength: o.Strength,
		Partition: slices.Clone(o.Partition), BySourceTime: o.BySource, AllowCompatible: o.Compatible,
	}
}

// Mismatch names why no samples flow between a writer and a reader of one topic,
// in either order: "PARTITION", "TYPE", or the policy of which less is offered
// than requested; "" if they do.
func (a Announcement) Mismatch(b Announcement) string {
	if !a.json.QoS.Partition.meets(b.json.QoS.Partition) {
		return "PARTITION"
	}
	switch e := match(a.json, b.json, b.GUID).(type) {
	case IncompatibleQoS:
		return e.Policy
	case InconsistentTopic:
		return "TYPE"
	}
	return ""
}

// SampleKind says what a sample does to its instance.
type SampleKind string

// Kinds of samples.
const (
	SampleWritten      SampleKind = "written"
	SampleDisposed     SampleKind = "disposed"
	SampleUnregistered SampleKind = "unregistered"
)

// An ObservedSample is a sample as it passes through the broker.
type ObservedSample struct {
	Partition, Key string
	Writer         GUID
	Sequence       uint64
	SourceTime     time.Time // by the writer's clock
	ReceiveTime    time.Time // by ours
	Kind           SampleKind
	Retained       bool   // it was published before the subscription
	Size           int    // of its part of the MQTT payload, in bytes
	Codec          Codec  // "" if it cannot be told
	Body           []byte // as the codec wrote it; of the key fields alone if disposed or unregistered
}

// JSON returns the body as JSON, whatever its type. It fails with ErrInvalid for one
// byte of a writer that is not announced: that may be either codec's.
func (s *ObservedSample) JSON() (json.RawMessage, error) {
	switch s.Codec {
	case JSON:
		if !json.Valid(s.Body) {
			return nil, fmt.Errorf("%w: a sample of %v is not JSON", ErrInvalid, s.Writer)
		}
		return s.Body, nil
	case Msgpack:
		var v any
		if err := s.Codec.decode(s.Body, &v); err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
	return nil, fmt.Errorf("%w: the writer %v is not announced, so how it writes is not known", ErrInvalid, s.Writer)
}

// ObserveSamples has handler called for all samples of a topic, of any type and in
// any partition, as the broker delivers them: without history, repair, filters or
// QoS, and once for each partition that the writer names. No writer learns of it.
// It blocks until the broker has granted the subscription; a refusal wraps
// ErrRefused.
//
// handler runs on the goroutine which reads from the network and must not block;
// Body is its own. After stop returns, no new call begins.
func (p *Participant) ObserveSamples(ctx context.Context, topic string, handler func(ObservedSample)) (stop func(), err error) {
	level, err := EncodeLevel(topic)
	if err != nil {
		return nil, fmt.Errorf("topic name: %w", err)
	}
	x := &p.exchange
	if err := x.start(ctx); err != nil {
		return nil, fmt.Errorf("pubsub: observing topic %q: %w", topic, err)
	}
	return p.subscribe(ctx, x.data, p.root+"/data/+/"+level+"/+/+/+", func(topic string, payload []byte, retained bool) {
		if len(payload) == 0 {
			return // a retained one is cleared
		}
		for _, s := range x.observed(topic, payload) {
			s.Retained = retained
			handler(s)
		}
	})
}

// observed takes data/{partition}/{topic}/{key}/{P}/{writer} and its samples apart.
func (x *exchange) observed(topic string, payload []byte) (all []ObservedSample) {
	levels, err := decodeTopic(topic)
	if err != nil || len(levels) != 6 {
		x.p.drop(dropTopic, topic, err)
		return nil
	}
	for len(payload) > 0 {
		var e envelope
		rest, err := nextEnvelope(payload, &e)
		if err != nil || e.kind != kindSample {
			x.p.drop(dropMalformed, topic, err)
			break
		}
		key := levels[3]
		if key == manyKeys {
			if key, err = DecodeLevel(string(e.options.key)); err != nil {
				x.p.drop(dropTopic, topic, err)
				break
			}
		}
		all = append(all, ObservedSample{
			Partition: levels[1], Key: key, Writer: GUID{levels[4], e.epoch, levels[5]},
			Sequence: e.seq, SourceTime: time.Unix(0, int64(e.nanos)), ReceiveTime: time.Now(),
			Kind: sampleKinds[e.options.status], Size: len(payload) - len(rest), Body: slices.Clone(e.body),
		})
		payload = rest
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range all {
		s := &all[i]
		if w := x.remote[s.Writer.Participant][s.Writer.Endpoint]; w != nil && w.guid == s.Writer {
			s.Codec = w.Codec
		} else {
			s.Codec = codecOf(s.Body)
		}
	}
	return all
}

var sampleKinds = [statuses]SampleKind{SampleWritten, SampleDisposed, SampleUnregistered}

// codecOf tells by the body how it was written, for a writer whose announcement has
// gone or not come yet. JSON begins with ASCII, msgpack with another byte unless it is
// a number of one byte: "" then.
func codecOf(body []byte) Codec {
	switch {
	case len(body) > 0 && body[0] >= 0x80:
		return Msgpack
	case len(body) > 1:
		return JSON
	}
	return ""
}
