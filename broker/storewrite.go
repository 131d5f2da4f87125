package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"time"

	"padme/internal/throttle"
	"padme/internal/vanished"
)

// put stores a value. A failure is logged and counted, and repeated later.
func (s *store) put(bucket, key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(opPut, bucket, key, value)
}

// update stores what value returns, or deletes the key when that is nil. It
// calls value under the store's lock, so the last update sees the last value.
func (s *store) update(bucket, key string, value func() []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := value(); v != nil {
		s.append(opPut, bucket, key, v)
	} else {
		s.delete(bucket, key)
	}
}

// remove deletes a key; one that does not exist costs nothing.
func (s *store) remove(bucket, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delete(bucket, key)
}

func (s *store) delete(bucket, key string) {
	if _, ok := s.buckets[bucket][key]; ok {
		s.append(opDelete, bucket, key, nil)
	} else {
		s.owed.forget(owedKey{bucket: bucket, key: key})
	}
}

// drop deletes a bucket; one that does not exist costs nothing.
func (s *store) drop(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.buckets[bucket]; ok {
		s.append(opDrop, bucket, "", nil)
	} else {
		s.owed.forgetAll(bucket)
	}
}

// dropAll drops the buckets that match, and returns how many.
func (s *store) dropAll(match func(bucket string) bool) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, bucket := range slices.Collect(maps.Keys(s.buckets)) {
		if match(bucket) {
			s.append(opDrop, bucket, "", nil)
			dropped++
		}
	}
	return dropped
}

func (s *store) append(op byte, bucket, key string, value []byte) {
	if s.closed {
		return
	}
	r := append(s.record[:0], make([]byte, frame)...)
	r = append(r, op)
	r = binary.AppendUvarint(r, uint64(len(bucket)))
	r = append(r, bucket...)
	r = binary.AppendUvarint(r, uint64(len(key)))
	r = append(r, key...)
	r = append(r, value...)
	binary.LittleEndian.PutUint32(r, uint32(len(r)-frame))
	binary.LittleEndian.PutUint32(r[4:], crc32.Checksum(r[frame:], castagnoli))
	s.record = r
	err := s.settle()
	if err == nil {
		err = s.write(r)
	}
	if err != nil {
		s.owe(owedKey{bucket, key, op == opDrop}, r)
		s.complain(err)
	}
}

// write appends a record. After a failure end stays, and the next one overwrites what is torn.
func (s *store) write(r []byte) error {
	if _, err := s.file.WriteAt(r, s.end); err != nil {
		return err
	}
	if err := s.apply(r, s.end); err != nil {
		panic("broker: a record that was just made is damaged")
	}
	s.end += int64(len(r))
	s.dirty = true
	if s.end > 2*s.live+rubbish {
		s.compactSoon()
	}
	return nil
}

// complain logs that a write has failed, but not too often.
func (s *store) complain(err error) {
	if now := time.Now(); now.Sub(s.told) >= tellAgain {
		s.told = now
		s.log.Error("the broker's log cannot be written: is the disk full? What has changed is written when it can be", "file", s.path, "waiting", len(s.owed.at), "error", err)
	}
}

// failures counts what could not be written.
func (s *store) failures() int64 {
	if s == nil {
		return 0
	}
	return s.failed.Load()
}

// each calls f with every value of the buckets which match has chosen.
func (s *store) each(match func(bucket string) bool, f func(bucket, key string, value []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for bucket, keys := range s.buckets {
		if !match(bucket) {
			continue
		}
		for key, x := range keys {
			value := make([]byte, x.value)
			if _, err := s.file.ReadAt(value, x.offset+int64(x.size-x.value)); err != nil {
				return err
			}
			if err := f(bucket, key, value); err != nil {
				return fmt.Errorf("%s: offset %d: %w", s.path, x.offset, err)
			}
		}
	}
	return nil
}

func (s *store) syncLoop() {
	defer close(s.synced)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	looks := time.NewTicker(vanished.Every)
	defer looks.Stop()
	var told throttle.Log[string]
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.retry()
			s.sync()
		case <-looks.C:
			s.look(&told)
		}
	}
}

// retry writes what could not be written before.
func (s *store) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.settle(); err != nil {
		s.complain(err)
	}
}

// sync writes the file out without holding up who writes to it meanwhile.
func (s *store) sync() {
	s.mu.Lock()
	file, dirty := s.file, s.dirty
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // compacted meanwhile, which syncs
		s.log.Error("the broker's log cannot be synced", "file", s.path, "error", err)
	}
}

// close syncs and closes the file. Later operations do nothing.
func (s *store) close() error {
	close(s.stop)
	<-s.synced
	s.mu.Lock()
	unwritten := s.settle()
	s.closed = true
	s.mu.Unlock()
	s.rewriting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(unwritten, s.file.Sync(), s.file.Close())
	_ = s.lock.Close()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}
