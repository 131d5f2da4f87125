package protocol

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"padme/qosmutex/internal/pack"
)

// Record is what the register keeps of a lock topic, one key each: who is the root,
// until when no other participant may be, and what holds for the topic as a whole. It
// is the only authority: the participant that it names is the root, for as long as its
// lease runs.
//
// A Record is a value. What its slices hold never changes.
type Record struct {
	Term  uint64 // of the root: 1 for the first, and higher for each after it
	Root  Node   // zero: the last root gave up, and the candidate that writes next is the root
	Place string // the machine, boot and lock file of the root, where it keeps one: only one process at a time is there

	Lease Duration // after it without a renewal another candidate may be the root; at most TTL/2
	TTL   Duration // of the members' sessions; never changes

	Ceiling uint64 // the root hands out fences below it; never falls

	Settings Settings // Version rises with each change
}

// Limits of a record.
const (
	MaxRecord  = 64 << 10 // bytes of its encoded form: as much as a register takes
	MinLease   = 10 * Millisecond
	MaxTTL     = 24 * 3600 * Second
	MaxCeiling = 1 << 62

	maxPlace      = MaxName
	maxSettings   = MaxRecord - 4<<10 // leaves room for the rest of a record
	recordVersion = 1
	recordWidth   = 9
)

// ErrRecord is wrapped by every error about a record.
var ErrRecord = errors.New("protocol: invalid record")

// Validate reports the first field that no correct participant writes.
func (r *Record) Validate() error {
	switch {
	case r.Term == 0:
		return fmt.Errorf("%w: the term is 0", ErrRecord)
	case r.TTL <= 0 || r.TTL > MaxTTL:
		return fmt.Errorf("%w: the TTL of %d ns is not between 0 and %d s", ErrRecord, r.TTL, MaxTTL/Second)
	case r.Lease < MinLease || r.Lease > r.TTL/2:
		return fmt.Errorf("%w: the lease of %d ns is not between %d ms and half the TTL of %d ns", ErrRecord, r.Lease, MinLease/Millisecond, r.TTL)
	case r.Ceiling == 0 || r.Ceiling > MaxCeiling:
		return fmt.Errorf("%w: the fence ceiling %d is not between 1 and 2^62", ErrRecord, r.Ceiling)
	case len(r.Root.ID) > MaxName || !utf8.ValidString(r.Root.ID):
		return fmt.Errorf("%w: the root's name %.20q is not UTF-8 of at most %d bytes", ErrRecord, r.Root.ID, MaxName)
	case len(r.Place) > maxPlace || !utf8.ValidString(r.Place):
		return fmt.Errorf("%w: the place %.20q is not UTF-8 of at most %d bytes", ErrRecord, r.Place, maxPlace)
	}
	return r.Settings.Validate()
}

// AppendRecord appends the encoded form of r, a msgpack array:
//
//	[1, term, root ID, root incarnation, place, lease, ttl, ceiling, settings]
//
// Settings are those of a message. Later versions may append fields.
func AppendRecord(dst []byte, r *Record) []byte {
	dst = pack.AppendArray(dst, recordWidth)
	dst = pack.AppendUint(dst, recordVersion)
	dst = pack.AppendUint(dst, r.Term)
	dst = appendNode(dst, r.Root)
	dst = pack.AppendString(dst, r.Place)
	dst = pack.AppendUint(dst, uint64(r.Lease))
	dst = pack.AppendUint(dst, uint64(r.TTL))
	dst = pack.AppendUint(dst, r.Ceiling)
	return appendSettings(dst, &r.Settings)
}

// DecodeRecord reads what AppendRecord wrote. An error wraps ErrRecord and names the
// field. Memory is allocated only for what b really contains, whatever lengths it
// claims, and nothing in the record refers to b.
func DecodeRecord(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return Record{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrRecord, len(b), MaxRecord)
	}
	var d Decoder
	rec, err := d.record(b)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return rec, rec.Validate()
}

func (d *Decoder) record(b []byte) (rec Record, err error) {
	r := d.read(b)
	extra := r.AtLeast("record", recordWidth)
	if v := r.Uint64("version"); r.Err() == nil && v != recordVersion {
		r.Fail("version", "%d is not %d", v, recordVersion)
	}
	rec.Term = r.Uint64("term")
	rec.Root = d.node("root")
	rec.Place = d.name("place")
	rec.Lease = Duration(r.Uint("lease", math.MaxInt64))
	rec.TTL = Duration(r.Uint("ttl", math.MaxInt64))
	rec.Ceiling = r.Uint("ceiling", MaxCeiling)
	d.settings("settings", &rec.Settings)
	if r.Err() == nil {
		r.Skip("appended fields", extra)
	}
	return rec, r.End("record")
}
