package quorum

import "slices"

// MemoryDisk is a disk that survives the voters that use it, one after the other.
type MemoryDisk struct {
	records [][]byte
	opens   uint64
	Fail    error  // of whatever is written
	Before  func() // it is written; nil: nothing
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

func (d *MemoryDisk) Size() int64 {
	n := 0
	for _, r := range d.records {
		n += len(r)
	}
	return int64(n)
}

func (d *MemoryDisk) Opens() uint64 { return d.opens }

func (d *MemoryDisk) Close() error { return nil }
