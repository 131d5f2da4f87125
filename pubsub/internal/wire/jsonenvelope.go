package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A jsonEnvelope is the envelope of a sample of a JSON topic: one JSON object, so that
// programs without this package can read the sample. Numbers that can exceed 2^53 are
// decimal strings, because JavaScript rounds them.
type jsonEnvelope struct {
	Version  int             `json:"v"`
	Data     json.RawMessage `json:"data,omitempty"` // the body; of the key fields alone if disposed or unregistered
	Kind     string          `json:"kind,omitempty"` // of sampleStatusNames; left out for a value
	Seq      uint64          `json:"seq,string"`
	Epoch    uint64          `json:"epoch,string"`
	Nanos    uint64          `json:"sourceNanos,string"`
	Schema   uint64          `json:"schemaHash,string"`
	Lifespan uint64          `json:"lifespan,string,omitempty"`
	Previous uint64          `json:"previous,string,omitempty"`
	Key      string          `json:"key,omitempty"`
	Strength *int            `json:"strength,string,omitempty"` // of an exclusive writer
	Change   uint64          `json:"change,string,omitempty"`
}

// appendJSON appends e, whose body is JSON or empty, as one JSON object.
func appendJSON(b []byte, e *Envelope) []byte {
	j := jsonEnvelope{
		Version: envelopeVersion, Data: e.Body, Seq: e.Seq, Epoch: e.Epoch, Nanos: e.Nanos, Schema: e.Schema,
		Lifespan: e.Options.Lifespan, Previous: e.Options.Previous, Key: string(e.Options.Key),
		Change: e.Options.Ownership.Change,
	}
	if e.Options.Ownership.Told {
		j.Strength = &e.Options.Ownership.Strength
	}
	if e.Options.Status != StatusData {
		j.Kind = StatusNames[e.Options.Status]
	}
	text, err := json.Marshal(&j)
	if err != nil { // the body is not JSON, which the codec excludes: readers take the other form too
		return appendMsgpack(b, e)
	}
	return append(b, text...)
}

var errJSON = errors.New("pubsub: not the JSON of a sample")

// nextJSON reads the JSON object that b begins with, and returns what follows it.
func nextJSON(b []byte, e *Envelope) (rest []byte, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	var j jsonEnvelope
	if err := d.Decode(&j); err != nil {
		return nil, fmt.Errorf("%w: %w", errJSON, err)
	}
	if j.Version != envelopeVersion {
		return nil, fmt.Errorf("%w: envelope version %d, this is version %d", ErrVersion, j.Version, envelopeVersion)
	}
	*e = Envelope{Kind: KindSample, JSON: true, Epoch: j.Epoch, Seq: j.Seq, Nanos: j.Nanos, Schema: j.Schema, Body: j.Data}
	e.Options.Lifespan, e.Options.Previous = j.Lifespan, j.Previous
	e.Options.Ownership.Change = j.Change
	if j.Strength != nil {
		e.Options.Ownership.Told, e.Options.Ownership.Strength = true, *j.Strength
	}
	if j.Key != "" {
		e.Options.Key = []byte(j.Key)
	}
	if j.Kind != "" {
		s := slices.Index(StatusNames[:], j.Kind)
		if s < 0 {
			return nil, fmt.Errorf("%w: kind %.20q", errJSON, j.Kind)
		}
		e.Options.Status = Status(s)
	}
	return bytes.TrimLeft(b[d.InputOffset():], " \t\r\n"), nil
}
