package quorum

import "slices"

// MemoryDisk is a disk that survives the voters that use it, one after the other.
type MemoryDisk struct {
	records  [][]byte
	noted    [][]byte // without a sync
	notes    bool
	opens    uint64
	Killed   bool   // only processes end, and the machine runs on
	Fail     error  // of whatever is written
	FailNote error  // of what is not synced
	Before   func() // it is written; nil: nothing
}

// StartOn starts a voter on a disk in memory.
func StartOn(opts Options, t Transport, d *MemoryDisk, seed uint64) (*Voter, error) {
	opts.seed = seed
	return start(opts, t, func(replay func([]byte) error) (disk, error) {
		d.opens++
		for _, r := range d.records {
			if err := replay(r); err != nil {
				return nil, err
			}
		}
		return d, nil
	})
}

func (d *MemoryDisk) Append(records ...[]byte) error {
	if d.Before != nil {
		d.Before()
	}
	for _, r := range records {
		if d.Fail != nil {
			return d.Fail
		}
		d.records = append(d.records, slices.Clone(r))
	}
	return nil
}

func (d *MemoryDisk) Compact(records ...[]byte) error {
	if d.Fail != nil {
		return d.Fail
	}
	d.records = nil
	return d.Append(records...)
}

func (d *MemoryDisk) Unsynced() ([][]byte, bool) {
	records, all := d.noted, d.Killed && d.notes
	d.noted, d.notes = nil, false
	return records, all
}

func (d *MemoryDisk) BeginUnsynced(records ...[]byte) error {
	if d.FailNote != nil {
		return d.FailNote
	}
	d.noted, d.notes = nil, true
	return d.Note(records...)
}

func (d *MemoryDisk) WantsUnsynced() bool { return !d.notes || len(d.noted) > 50 }

func (d *MemoryDisk) Note(records ...[]byte) error {
	if d.FailNote != nil && d.notes {
		d.noted, d.notes = nil, false
		return d.FailNote
	}
	if d.notes {
		for _, r := range records {
			d.noted = append(d.noted, slices.Clone(r))
		}
	}
	return nil
}

func (d *MemoryDisk) Look(func() [][]byte) (bool, error) { return false, nil }

func (d *MemoryDisk) Size() int64 {
	n := 0
	for _, r := range d.records {
		n += len(r)
	}
	return int64(n)
}

func (d *MemoryDisk) Opens() uint64 { return d.opens }

func (d *MemoryDisk) Close() error { return nil }

// LimitNames are what the limits of a voter are called.
func LimitNames() (names []string) {
	for _, l := range voterLimits {
		names = append(names, l.Name)
	}
	return names
}
