package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

// An Announcement is a writer or reader of the domain, as it was announced.
type Announcement struct {
	GUID  GUID
	Kind  string // "writer" or "reader"
	Topic string
	Type  string // of its samples, as it names it
	Codec Codec
	// QoS has the policies that both sides must know; the others are zero.
	QoS       QoS
	Instance  string            // the only one that a reader receives, "" for all
	Alive     bool              // false: its participant ended without withdrawing it
	UserData  map[string]string // see WithEndpointData
	TopicData map[string]string // see WithTopicData

	announced discovery.Announcement
}

// Endpoints returns all writers and readers of the domain that the broker knows, including
// those of this participant, sorted by topic and then by participant. It blocks until the
// broker has delivered all that it retains, or ctx ends. Errors: ErrRefused, ErrClosed.
func (p *Participant) Endpoints(ctx context.Context) ([]Announcement, error) {
	p = p.orEnded()
	known, err := p.directory.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("pubsub: endpoints of the domain: %w", p.outage(ctx, p.main, err))
	}
	var all []Announcement
	for _, e := range known {
		all = append(all, entryOf(e))
	}
	slices.SortFunc(all, func(a, b Announcement) int {
		return strings.Compare(a.Topic+"\x00"+a.GUID.String(), b.Topic+"\x00"+b.GUID.String())
	})
	return all, nil
}

func entryOf(e discovery.Entry) Announcement {
	return Announcement{
		GUID: GUID(e.GUID), Kind: e.Kind, Topic: e.Topic, Type: e.Type, Codec: Codec(e.Codec),
		QoS: policiesOf(&e.QoS), Instance: e.QoS.Instance, Alive: e.Alive,
		UserData: maps.Clone(e.UserData), TopicData: maps.Clone(e.TopicData),
		announced: e.Announcement,
	}
}

// Mismatch returns why no samples flow between a writer and a reader of one topic, in
// either order: "PARTITION", "TYPE", or the name of the policy of which less is offered
// than requested. It returns "" if they match.
func (a Announcement) Mismatch(b Announcement) string {
	return a.announced.Mismatch(&b.announced)
}

// SampleKind says what a sample does to its instance.
type SampleKind string

// Kinds of samples.
const (
	SampleWritten      SampleKind = "written"
	SampleDisposed     SampleKind = "disposed"
	SampleUnregistered SampleKind = "unregistered"
)

// An ObservedSample is a sample as the broker delivers it.
type ObservedSample struct {
	Topic          string
	Partition, Key string
	Writer         GUID
	Sequence       uint64
	SourceTime     time.Time // by the writer's clock
	ReceiveTime    time.Time // by ours
	Kind           SampleKind
	Retained       bool   // it was published before the subscription
	Size           int    // of its part of the MQTT payload, in bytes
	Codec          Codec  // "" if it is unknown
	Body           []byte // encoded with the codec; only the key fields if disposed or unregistered
}

// JSON returns the body as JSON, whatever its type. It fails with ErrInvalid if the body is
// a single byte and the writer is not announced, because then the codec is unknown.
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

// HasWildcard reports whether a topic name, split at its slashes, contains a level + or
// ends with a level #.
func HasWildcard(topic string) bool {
	levels := strings.Split(topic, "/")
	return slices.Contains(levels, "+") || levels[len(levels)-1] == "#"
}

// nameMatches reports whether a topic's name is one of those that pattern stands for, as
// MQTT has it.
func nameMatches(pattern, name string) bool {
	for {
		want, patterns, more := strings.Cut(pattern, "/")
		level, names, deeper := strings.Cut(name, "/")
		switch {
		case want == "#" && !more:
			return true
		case want != "+" && want != level:
			return false
		case !more:
			return !deeper
		case !deeper:
			return patterns == "#" // a/# stands for a, too
		}
		pattern, name = patterns, names
	}
}

// ObserveSamples calls handler for all samples of a topic, of any type and in any
// partition, as the broker delivers them: without history, repair, filters or QoS, and once
// for each partition that the writer names. Writers are not aware of it. A topic that
// HasWildcard stands for all matching topics: + for any level of their names and # for all
// further levels. ObserveSamples blocks until the broker has granted the subscription; a
// refusal wraps ErrRefused.
//
// handler runs on the goroutine that reads from the network and must not block; it owns
// Body. After stop returns, no new call begins.
func (p *Participant) ObserveSamples(ctx context.Context, topic string, handler func(ObservedSample)) (stop func(), err error) {
	p = p.orEnded()
	if err := needHandler(handler != nil); err != nil {
		return nil, err
	}
	several := HasWildcard(topic)
	level, err := "+", error(nil)
	if !several {
		level, err = EncodeLevel(topic)
	}
	if err != nil {
		return nil, fmt.Errorf("topic name: %w", err)
	}
	x := &p.exchange
	err = x.start(ctx)
	var release func()
	if err == nil {
		release, err = p.directory.Follow(ctx, announcedAs(topic))
	}
	if err != nil {
		return nil, fmt.Errorf("pubsub: observing topic %q: %w", topic, err)
	}
	end, err := p.subscribe(ctx, x.data, p.root+"/data/+/"+level+"/+/+/+", func(at string, payload []byte, retained bool) {
		if len(payload) == 0 {
			return // a retained one is cleared
		}
		for _, s := range x.observed(at, payload) {
			if s.Retained = retained; !several || nameMatches(topic, s.Topic) {
				handler(s)
			}
		}
	})
	if err != nil {
		release()
		return nil, err
	}
	return func() { end(); release() }, nil
}

// announcedAs is the topic, or "" for all topics, whose announcements say how the
// samples of the given ones are written.
func announcedAs(topic string) string {
	if HasWildcard(topic) {
		return ""
	}
	return topic
}

// observed takes data/{partition}/{topic}/{key}/{P}/{writer} and its samples apart.
func (x *exchange) observed(topic string, payload []byte) (all []ObservedSample) {
	levels, err := level.DecodeTopic(topic)
	if err != nil || len(levels) != 6 {
		x.p.drop(drop.Topic, topic, err)
		return nil
	}
	for len(payload) > 0 {
		var e wire.Envelope
		rest, err := wire.Next(payload, &e)
		if err != nil || e.Kind != wire.KindSample {
			x.p.drop(drop.Malformed, topic, err)
			break
		}
		key := levels[3]
		if key == wire.ManyKeys {
			if key, err = DecodeLevel(string(e.Options.Key)); err != nil {
				x.p.drop(drop.Topic, topic, err)
				break
			}
		}
		all = append(all, ObservedSample{
			Topic: levels[2], Partition: levels[1], Key: key, Writer: GUID{levels[4], e.Epoch, levels[5]},
			Sequence: e.Seq, SourceTime: time.Unix(0, int64(e.Nanos)), ReceiveTime: time.Now(),
			Kind: SampleKind(wire.StatusNames[e.Options.Status]), Size: len(payload) - len(rest), Body: slices.Clone(e.Body),
		})
		payload = rest
	}
	for i := range all {
		s := &all[i]
		if w := x.p.directory.Find(s.Topic, wire.GUID(s.Writer)); w != nil {
			s.Codec = Codec(w.Codec)
		} else {
			s.Codec = codecOf(s.Body)
		}
	}
	return all
}

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
