package wire

import (
	"errors"
	"fmt"
)

// Kind says what an envelope carries.
type Kind uint8

// What envelopes carry.
const (
	KindMessage  Kind = iota + 1 // for an Inbox handler
	KindWho                      // to oneself at joining: is there anybody else with this id? To others: who are you?
	KindHere                     // the answer: yes, the sender
	KindSample                   // of a writer, on a data topic
	KindRepair                   // between a writer and a reader, in the inbox
	KindEcho                     // to oneself, to hear what the broker delivered before
	KindAnnounce                 // what stands on a retained topic of the sender, in the inbox
)

const envelopeVersion = 1

// MaxName bounds the names of topics, participants and endpoints, in bytes.
const MaxName = 128

// ManyKeys is the key level of a message with samples of several instances. No instance
// has it.
const ManyKeys = "="

// ErrVersion marks an envelope of another protocol version.
var ErrVersion = errors.New("pubsub: unknown version")

// An Envelope is what participants send each other: the msgpack array
// [version, kind, epoch, seq, sourceNanos, schemaHash, options, body].
// Elements may be added at the end and options at will; both are skipped when
// unknown. Of a sample on a JSON topic it is a JSON object: see jsonEnvelope.
type Envelope struct {
	Kind   Kind
	JSON   bool   // of a JSON topic
	Epoch  uint64 // incarnation of the sender
	Seq    uint64
	Nanos  uint64 // source time, nanoseconds since 1970; 0 when it does not matter
	Schema uint64 // hash of the type; 0 when there is none

	Options Options

	Body []byte // content of a bin (or str)

	Buffer *Buffer // that Body is in; nil if in none, or if somebody has taken it
}

// Options is a msgpack map with one-letter keys; what is zero is left
// out.
type Options struct {
	Channel []byte // "c": the inbox channel of a message
	Status  Status // "s": what a sample does to its instance
	// "l": how long after its source time a sample is of use, in nanoseconds; 0 is
	// for ever.
	Lifespan uint64
	// "k": the encoded key level, of a sample that may share a message with those
	// of other instances; empty if not told
	Key []byte
	// "p": one more than a number after which the writer has not written the
	// instance before this sample; 0 if not told.
	Previous  uint64
	Ownership Ownership
}

// Ownership is with what strength of ownership an exclusive writer has written a sample.
// Its announcements come by another connection than its samples: by these alone a reader
// could not tell.
type Ownership struct {
	Told     bool   // false of other writers, and of those of earlier versions
	Strength int    // "o"
	Change   uint64 // "n": how often the writer had changed its policies by then
}

func (o *Options) count() (n byte) {
	if len(o.Channel) > 0 {
		n++
	}
	if o.Status != StatusData {
		n++
	}
	if o.Lifespan != 0 {
		n++
	}
	if o.Previous != 0 {
		n++
	}
	if len(o.Key) > 0 {
		n++
	}
	if o.Ownership.Told {
		n++
	}
	if o.Ownership.Change != 0 {
		n++
	}
	return n
}

// Status is what a sample does to its instance.
type Status uint8

// What samples do.
const (
	StatusData       Status = iota // a value
	StatusDispose                  // the instance is gone; the body has the key
	StatusUnregister               // this writer will not write it any more
	statuses
)

// StatusNames are what JSON and users call them.
var StatusNames = [statuses]string{"written", "disposed", "unregistered"}

// Append appends e to b. It does not allocate when b has room, except for JSON.
func Append(b []byte, e *Envelope) []byte {
	if e.JSON {
		return appendJSON(b, e)
	}
	return appendMsgpack(b, e)
}

func appendMsgpack(b []byte, e *Envelope) []byte { return appendBin(appendHead(b, e), e.Body) }

// appendHead appends what comes before the body.
func appendHead(b []byte, e *Envelope) []byte {
	b = append(b, 0x98, envelopeVersion, byte(e.Kind))
	b = appendUint(b, e.Epoch)
	b = appendUint(b, e.Seq)
	b = appendUint(b, e.Nanos)
	b = appendUint(b, e.Schema)
	b = append(b, 0x80|e.Options.count())
	if len(e.Options.Channel) > 0 {
		b = append(b, 0xa1, 'c')
		b = appendBin(b, e.Options.Channel)
	}
	if e.Options.Status != StatusData {
		b = append(b, 0xa1, 's', byte(e.Options.Status))
	}
	if e.Options.Lifespan != 0 {
		b = appendUint(append(b, 0xa1, 'l'), e.Options.Lifespan)
	}
	if e.Options.Previous != 0 {
		b = appendUint(append(b, 0xa1, 'p'), e.Options.Previous)
	}
	if len(e.Options.Key) > 0 {
		b = appendBin(append(b, 0xa1, 'k'), e.Options.Key)
	}
	if e.Options.Ownership.Told {
		b = appendInt(append(b, 0xa1, 'o'), int64(e.Options.Ownership.Strength))
	}
	if e.Options.Ownership.Change != 0 {
		b = appendUint(append(b, 0xa1, 'n'), e.Options.Ownership.Change)
	}
	return b
}

// Parse reads b into e, whose byte slices share b's memory, except those of
// JSON. What comes from a stranger is not scanned deeper than the body's length.
func Parse(b []byte, e *Envelope) error {
	rest, err := Next(b, e)
	if err == nil && len(rest) > 0 {
		return ErrMsgpack
	}
	return err
}

// Next is parseEnvelope of the first of several, and returns those after it.
func Next(b []byte, e *Envelope) (rest []byte, err error) {
	if len(b) > 0 && b[0] == '{' {
		return nextJSON(b, e)
	}
	*e = Envelope{}
	n, b, err := readArray(b)
	if err != nil {
		return nil, err
	}
	version, b, err := readUint(b)
	if err != nil {
		return nil, err
	}
	if version != envelopeVersion {
		return nil, fmt.Errorf("%w: envelope version %d, this is version %d", ErrVersion, version, envelopeVersion)
	}
	if n < 8 {
		return nil, ErrMsgpack
	}
	var k uint64
	for _, field := range []*uint64{&k, &e.Epoch, &e.Seq, &e.Nanos, &e.Schema} {
		if *field, b, err = readUint(b); err != nil {
			return nil, err
		}
	}
	if k > 0xff {
		return nil, ErrMsgpack
	}
	e.Kind = Kind(k)
	if b, err = e.Options.parse(b); err != nil {
		return nil, err
	}
	if e.Body, b, err = readBytes(b); err != nil {
		return nil, err
	}
	for range n - 8 {
		if b, err = SkipValue(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Joins reports whether b begins with a message that may go to a participant together with
// others. It has to begin as Append has it: by that a broker counts them.
func Joins(b []byte) bool {
	return len(b) >= 3 && b[0] == 0x98 && b[1] == envelopeVersion && b[2] == byte(KindMessage)
}

func (o *Options) parse(b []byte) ([]byte, error) {
	n, b, err := readMap(b)
	if err != nil {
		return nil, err
	}
	for range n {
		var key []byte
		if key, b, err = readBytes(b); err != nil {
			return nil, err
		}
		switch string(key) {
		case "c":
			o.Channel, b, err = readBytes(b)
		case "s":
			var v uint64
			if v, b, err = readUint(b); v >= uint64(statuses) {
				return nil, ErrMsgpack
			}
			o.Status = Status(v)
		case "l":
			o.Lifespan, b, err = readUint(b)
		case "p":
			o.Previous, b, err = readUint(b)
		case "k":
			o.Key, b, err = readBytes(b)
		case "o":
			var v int64
			v, b, err = readInt(b)
			o.Ownership.Told, o.Ownership.Strength = true, int(v)
		case "n":
			o.Ownership.Change, b, err = readUint(b)
		default:
			b, err = SkipValue(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
