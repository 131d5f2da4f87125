package caspaxos

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"padme/qosmutex/internal/pack"
	"padme/qosmutex/register"
)

// Kinds of records.
const (
	recordSelf    = 1 + iota // name, instance, list of voters: the first of a file
	recordSerial             // how many records were written up to here, with those that were replaced
	recordCeiling            // of rounds
	recordConfig             // in which it votes: what was accepted before is over
	recordNext               // was decided
	recordSlot               // was accepted
	recordQuiet              // for how long nothing is answered after a restart
)

// Records returns everything that the machine must not forget, to replace all records
// that were appended before. If the machine votes, all but the first may also be appended to those,
// because the configuration ends what was accepted before it.
func (m *Machine) Records() [][]byte {
	list := [][]byte{m.selfRecord(), numberRecord(recordCeiling, m.ceiling), numberRecord(recordQuiet, uint64(m.owed))}
	if m.config != nil {
		list = append(list, configRecord(recordConfig, m.config))
	}
	if m.next != nil {
		list = append(list, configRecord(recordNext, m.next))
	}
	for _, key := range slices.Sorted(maps.Keys(m.slots)) {
		if s := m.slots[key]; !s.Accepted.IsZero() {
			list = append(list, slotRecord(&s.Slot))
		}
	}
	return append(list, numberRecord(recordSerial, m.serial))
}

// owe notes for how long a restart of this voter is to be followed by silence: longer
// from now on, or shorter once what an earlier run left unsynced has expired.
func (m *Machine) owe() {
	if m.opts.Quiet > m.owed || m.opts.Quiet < m.owed && m.now >= m.forgotten {
		m.owed = m.opts.Quiet
		m.persist(numberRecord(recordQuiet, uint64(m.owed)))
	}
}

// Unsynced returns all that counts of what Output.Unsynced has said so far, also in the run before,
// and maybe renewals that are on disk.
func (m *Machine) Unsynced() (list [][]byte) {
	for _, key := range slices.Sorted(maps.Keys(m.slots)) {
		if s := m.slots[key]; s.State.renewed() && s.onDisk == s.State.Firm {
			list = append(list, slotRecord(&s.Slot))
		}
	}
	return list
}

// QuietUntil is until when nothing is answered after a restart. Whatever is kept of Unsynced before,
// the next run must be told that it is not all.
func (m *Machine) QuietUntil() Time { return m.quiet }

// persist has a record written before anything is sent.
func (m *Machine) persist(record []byte) {
	m.serial++
	m.out.Persist = append(m.out.Persist, record)
}

func (m *Machine) selfRecord() []byte {
	dst := pack.AppendUint(pack.AppendArray(nil, 4), recordSelf)
	dst = pack.AppendUint(pack.AppendString(dst, m.opts.Self), m.instance)
	return appendStrings(dst, m.listed)
}

func numberRecord(kind, n uint64) []byte {
	return pack.AppendUint(pack.AppendUint(pack.AppendArray(nil, 2), kind), n)
}

func configRecord(kind uint64, c *Config) []byte {
	return appendConfig(pack.AppendUint(pack.AppendArray(nil, 2), kind), c)
}

func slotRecord(s *Slot) []byte {
	return appendSlot(pack.AppendUint(pack.AppendArray(nil, 2), recordSlot), s)
}

// ErrRecords is what every error about records wraps.
var ErrRecords = errors.New("caspaxos: unknown or inconsistent record")

// ErrForeign says that a file belongs to another voter.
var ErrForeign = errors.New("caspaxos: the file of another voter")

// replay takes the records of a file.
func (m *Machine) replay(records [][]byte) error {
	for i, b := range records {
		if err := m.replayOne(i, b); errors.Is(err, ErrForeign) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: record %d: %w", ErrRecords, i, err)
		}
	}
	for _, s := range m.slots {
		s.onDisk = s.State.Firm
	}
	m.replayUnsynced()
	return nil
}

// replayUnsynced takes renewals that are not among the records, unless a later state is, or they
// were accepted in a configuration that is over. If a record cannot be read, none counts.
func (m *Machine) replayUnsynced() {
	var list []Slot
	for _, b := range m.opts.Unsynced {
		r := pack.NewReader(b)
		r.Tuple("record", 2)
		kind, s := r.Uint("kind", math.MaxUint8), readSlot(r)
		if m.opts.All = m.opts.All && r.End("record") == nil && kind == recordSlot; !m.opts.All {
			return
		}
		list = append(list, s)
	}
	for _, from := range list {
		s := m.slots[from.Key]
		if s != nil && m.config != nil && from.Accepted.Config == m.config.Number && from.Accepted.Compare(s.Accepted) > 0 {
			s.Slot = from
		}
	}
}

func (m *Machine) replayOne(i int, b []byte) error {
	r := pack.NewReader(b)
	n := r.Array("record", 4)
	kind := r.Uint("kind", math.MaxUint8)
	if first := kind == recordSelf; first != (i == 0) || first && n != 4 || !first && n != 2 {
		r.Fail("record", "kind %d with %d elements", kind, n)
	}
	m.serial++
	switch kind {
	case recordSelf:
		id := r.String("id", register.MaxKey)
		m.instance = r.Uint("instance", math.MaxUint64)
		m.listed = readStrings(r, "voters", MaxVoters)
		if r.Err() == nil && id != m.opts.Self {
			return fmt.Errorf("%w: it is of %q, not of %q", ErrForeign, id, m.opts.Self)
		}
	case recordSerial:
		m.serial = r.Uint("serial", math.MaxUint64)
	case recordCeiling:
		m.ceiling = r.Uint("ceiling", math.MaxUint64)
	case recordQuiet:
		m.owed = Time(r.Uint("quiet", math.MaxInt64))
	case recordConfig:
		m.config, m.next = readConfig(r), nil
		clear(m.slots)
	case recordNext:
		m.next = readConfig(r)
	case recordSlot:
		s := readSlot(r)
		m.slots[s.Key] = &slot{Slot: s}
	default:
		r.Fail("record", "kind %d is of a later release", kind)
	}
	return r.End("record")
}
