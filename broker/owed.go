package broker

// perOwed is what one change costs beside its record, in bytes.
const perOwed = 200

// owed are the latest changes that could not be written, in their order: without them, a
// restart after the disk had room again would bring old values back. The zero value is
// ready to use.
type owed struct {
	records []owedRecord
	at      map[owedKey]int // in records; those that are in none are not owed any more
	first   int             // no record before is owed
	bytes   int64
}

// owedKey is what a record changes: a key, or a whole bucket.
type owedKey struct {
	bucket, key string
	whole       bool
}

type owedRecord struct {
	of     owedKey
	record []byte // nil: not owed any more
}

func (o *owed) empty() bool { return len(o.at) == 0 }

// add takes the place of what is owed for the same key, or for a bucket that is dropped. It
// copies the record, and reports false if it would be more than most bytes.
func (o *owed) add(of owedKey, record []byte, most int64) bool {
	if of.whole {
		o.forgetAll(of.bucket)
	}
	cost := int64(len(record))
	i, again := o.at[of]
	if again {
		cost -= int64(len(o.records[i].record))
	} else {
		cost += perOwed
	}
	if o.bytes+cost > most {
		return false
	}
	o.bytes += cost
	r := owedRecord{of, append([]byte{}, record...)}
	if again { // nothing of its bucket that comes later has been dropped since
		o.records[i] = r
		return true
	}
	o.squeeze()
	o.at[of] = len(o.records)
	o.records = append(o.records, r)
	return true
}

// squeeze makes room where most records are not owed any more.
func (o *owed) squeeze() {
	if o.at == nil {
		o.at = map[owedKey]int{}
	}
	if len(o.records) < 2*len(o.at)+1024 {
		return
	}
	var all []owedRecord
	for _, r := range o.records {
		if r.record != nil {
			o.at[r.of] = len(all)
			all = append(all, r)
		}
	}
	o.records, o.first = all, 0
}

// forget has something not be owed any more.
func (o *owed) forget(of owedKey) {
	i, ok := o.at[of]
	if !ok {
		return
	}
	o.bytes -= int64(len(o.records[i].record)) + perOwed
	o.records[i] = owedRecord{}
	if delete(o.at, of); len(o.at) == 0 {
		*o = owed{}
	}
}

func (o *owed) forgetAll(bucket string) {
	for of := range o.at {
		if of.bucket == bucket && !of.whole {
			o.forget(of)
		}
	}
}

// next returns the oldest record. There must be one.
func (o *owed) next() owedRecord {
	for o.records[o.first].record == nil {
		o.first++
	}
	return o.records[o.first]
}

// owe keeps a change that cannot be written now. The caller holds mu.
func (s *store) owe(of owedKey, record []byte) {
	s.failed.Add(1)
	if s.owed.add(of, record, s.unwritten) {
		return
	}
	s.limited("max-unwritten", "", s.path)
}

// settle writes what is owed, as far as that can be done. The caller holds mu.
func (s *store) settle() error {
	if s.owed.empty() {
		return nil
	}
	for !s.owed.empty() {
		r := s.owed.next()
		if err := s.write(r.record); err != nil {
			return err
		}
		s.owed.forget(r.of)
	}
	s.log.Info("the broker's log can be written again, and has what was changed meanwhile", "file", s.path)
	return nil
}
