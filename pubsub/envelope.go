package pubsub

import "fmt"

// kind says what an envelope carries.
type kind uint8

const (
	kindLetter   kind = iota + 1 // for an Inbox handler
	kindWho                      // to oneself at joining: is there anybody else with this id? To others: who are you?
	kindHere                     // the answer: yes, the sender
	kindSample                   // of a writer, on a data topic
	kindRepair                   // between a writer and a reader, in the inbox
	kindEcho                     // to oneself, to hear what the broker delivered before
	kindAnnounce                 // what stands on a retained topic of the sender, in the inbox
)

const envelopeVersion = 1

// An envelope is what participants send each other: the msgpack array
// [version, kind, epoch, seq, sourceNanos, schemaHash, options, body].
// Elements may be added at the end and options at will; both are skipped when
// unknown.
type envelope struct {
	kind   kind
	epoch  uint64 // incarnation of the sender
	seq    uint64
	nanos  uint64 // source time, nanoseconds since 1970; 0 when it does not matter
	schema uint64 // hash of the type; 0 when there is none

	options envelopeOptions

	body []byte // content of a bin (or str)
}

// envelopeOptions is a msgpack map with one-letter keys; what is zero is left
// out.
type envelopeOptions struct {
	channel []byte // "c": the inbox channel of a letter
	status  status // "s": what a sample does to its instance
	// "l": how long after its source time a sample is of use, in nanoseconds; 0 is
	// for ever.
	lifespan uint64
	// "k": the encoded key level, of a sample that may share a message with those
	// of other instances; empty if not told
	key []byte
	// "p": one more than a number after which the writer has not written the
	// instance before this sample; 0 if not told.
	previous uint64
}

func (o *envelopeOptions) count() (n byte) {
	if len(o.channel) > 0 {
		n++
	}
	if o.status != statusData {
		n++
	}
	if o.lifespan != 0 {
		n++
	}
	if o.previous != 0 {
		n++
	}
	if len(o.key) > 0 {
		n++
	}
	return n
}

// status is what a sample does to its instance.
type status uint8

const (
	statusData       status = iota // a value
	statusDispose                  // the instance is gone; the body has the key
	statusUnregister               // this writer will not write it any more
	statuses
)

// appendEnvelope appends e to b and does not allocate when b has room.
func appendEnvelope(b []byte, e *envelope) []byte {
	b = append(b, 0x98, envelopeVersion, byte(e.kind))
	b = appendUint(b, e.epoch)
	b = appendUint(b, e.seq)
	b = appendUint(b, e.nanos)
	b = appendUint(b, e.schema)
	b = append(b, 0x80|e.options.count())
	if len(e.options.channel) > 0 {
		b = append(b, 0xa1, 'c')
		b = appendBin(b, e.options.channel)
	}
	if e.options.status != statusData {
		b = append(b, 0xa1, 's', byte(e.options.status))
	}
	if e.options.lifespan != 0 {
		b = appendUint(append(b, 0xa1, 'l'), e.options.lifespan)
	}
	if e.options.previous != 0 {
		b = appendUint(append(b, 0xa1, 'p'), e.options.previous)
	}
	if len(e.options.key) > 0 {
		b = appendBin(append(b, 0xa1, 'k'), e.options.key)
	}
	return appendBin(b, e.body)
}

// parseEnvelope reads b into e, whose byte slices share b's memory. What comes
// from a stranger is not scanned deeper than the body's length.
func parseEnvelope(b []byte, e *envelope) error {
	rest, err := nextEnvelope(b, e)
	if err == nil && len(rest) > 0 {
		return errMsgpack
	}
	return err
}

// nextEnvelope is parseEnvelope of the first of several, and returns those after it.
func nextEnvelope(b []byte, e *envelope) (rest []byte, err error) {
	*e = envelope{}
	n, b, err := readArray(b)
	if err != nil {
		return nil, err
	}
	version, b, err := readUint(b)
	if err != nil {
		return nil, err
	}
	if version != envelopeVersion {
		return nil, fmt.Errorf("%w: envelope version %d, this is version %d", errVersion, version, envelopeVersion)
	}
	if n < 8 {
		return nil, errMsgpack
	}
	var k uint64
	for _, field := range []*uint64{&k, &e.epoch, &e.seq, &e.nanos, &e.schema} {
		if *field, b, err = readUint(b); err != nil {
			return nil, err
		}
	}
	if k > 0xff {
		return nil, errMsgpack
	}
	e.kind = kind(k)
	if b, err = e.options.parse(b); err != nil {
		return nil, err
	}
	if e.body, b, err = readBytes(b); err != nil {
		return nil, err
	}
	for range n - 8 {
		if b, err = skipValue(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (o *envelopeOptions) parse(b []byte) ([]byte, error) {
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
			o.channel, b, err = readBytes(b)
		case "s":
			var v uint64
			if v, b, err = readUint(b); v >= uint64(statuses) {
				return nil, errMsgpack
			}
			o.status = status(v)
		case "l":
			o.lifespan, b, err = readUint(b)
		case "p":
			o.previous, b, err = readUint(b)
		case "k":
			o.key, b, err = readBytes(b)
		default:
			b, err = skipValue(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
