package broker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// store is a log-structured map of buckets of keys, for small values that come
// and go: an operation is one write to the end of a file, so it is in the hands
// of the operating system, out of reach of kill -9, when it returns. The file is
// synced every second, and rewritten beside those who write when most of it is rubbish.
//
// File: magic, then records of
//
//	length uint32, CRC-32C uint32, op byte, bucket, key (uvarint length each), value
type store struct {
	log    *slog.Logger
	path   string
	unlock func()
	stop   chan struct{}
	synced chan struct{} // closed when the syncing goroutine has ended

	failed atomic.Int64

	mu      sync.Mutex
	file    *os.File
	end     int64 // where the next record goes
	live    int64 // bytes of records that still count
	dirty   bool
	buckets map[string]map[string]extent
	record  []byte // reused
	owed    owed
	closed  bool
	told    time.Time // when it was last logged that a write has failed
	forgot  time.Time // and that a change is lost

	compacting bool
	refused    time.Time // when it could not be compacted
	rewriting  sync.WaitGroup
}

// extent is where a value's record stands in the file.
type extent struct {
	offset int64
	size   int32 // of the whole record
	value  int32 // of its value, at the end
}

const (
	magic     = "padme broker log 1\n"
	opPut     = 'P'
	opDelete  = 'D'
	opDrop    = 'X' // a whole bucket
	recordMax = 512 << 20
	frame     = 8 // length and checksum
	tellAgain = 10 * time.Second
	rubbish   = 16 << 20 // bytes of it that are not worth a rewrite
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openStore opens or creates the log in a directory and locks it. A torn record
// at the end, the trace of a crash, is cut off.
func openStore(dir string, log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("%w: %s is in use: is another broker running with it?", ErrStore, dir)
	case err != nil:
		return nil, unusable(err)
	}
	s := &store{
		log: log, path: filepath.Join(dir, "broker.log"), unlock: unlock,
		stop: make(chan struct{}), synced: make(chan struct{}),
		buckets: map[string]map[string]extent{},
	}
	if err := s.open(); err != nil {
		unlock()
		if errors.As(err, new(*os.PathError)) {
			return nil, unusable(err)
		}
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	go s.syncLoop()
	return s, nil
}

// errLocked says that another process, or this one, has the lock of a file.
var errLocked = errors.New("locked")

// unusable adds what to do where the system refuses a directory or a file in it. The
// error names the path.
func unusable(err error) error {
	return fmt.Errorf("%w: %w: give a directory that has room and that this user may write to", ErrStore, err)
}

func (s *store) open() (err error) {
	if s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := s.replay(); err != nil {
		_ = s.file.Close()
		return err
	}
	return nil
}

func (s *store) replay() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(len(magic)) { // new, or killed while it was made
		s.end = int64(len(magic))
		_, err := s.file.WriteAt([]byte(magic), 0)
		return err
	}
	r := bufio.NewReaderSize(s.file, 1<<20)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if string(head) != magic {
		return fmt.Errorf("%s is no broker log of this version: choose another directory", s.path)
	}
	s.end = int64(len(magic))
	for {
		record, err := readRecord(r, info.Size()-s.end)
		if err == nil {
			err = s.apply(record, s.end)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			s.log.Warn("the end of the broker's log is damaged, as by a crash, and was cut off",
				"file", s.path, "offset", s.end, "lost_bytes", info.Size()-s.end, "error", err)
			return s.file.Truncate(s.end)
		}
		s.end += int64(len(record))
	}
}

var errDamaged = errors.New("damaged record")

func readRecord(r io.Reader, left int64) ([]byte, error) {
	var head [frame]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err // io.EOF only at the very end
	}
	n := int64(binary.LittleEndian.Uint32(head[:4]))
	if n > left-frame || n > recordMax {
		return nil, errDamaged
	}
	record := make([]byte, frame+n)
	copy(record, head[:])
	if _, err := io.ReadFull(r, record[frame:]); err != nil {
		return nil, errDamaged
	}
	if crc32.Checksum(record[frame:], castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errDamaged
	}
	return record, nil
}

// apply brings the index up to a record at an offset.
func (s *store) apply(record []byte, offset int64) error {
	if len(record) == frame {
		return errDamaged
	}
	op := record[frame]
	bucket, rest, ok := cutString(record[frame+1:])
	if !ok {
		return errDamaged
	}
	key, value, ok := cutString(rest)
	if !ok {
		return errDamaged
	}
	switch op {
	case opPut:
		s.forget(bucket, key)
		if s.buckets[bucket] == nil {
			s.buckets[bucket] = map[string]extent{}
		}
		s.buckets[bucket][key] = extent{offset: offset, size: int32(len(record)), value: int32(len(value))}
		s.live += int64(len(record))
	case opDelete:
		s.forget(bucket, key)
	case opDrop:
		for key := range s.buckets[bucket] {
			s.forget(bucket, key)
		}
	default:
		return errDamaged
	}
	return nil
}

func (s *store) forget(bucket, key string) {
	if old, ok := s.buckets[bucket][key]; ok {
		s.live -= int64(old.size)
		delete(s.buckets[bucket], key)
		if len(s.buckets[bucket]) == 0 {
			delete(s.buckets, bucket)
		}
	}
}

func cutString(b []byte) (string, []byte, bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", nil, false
	}
	return string(b[w : w+int(n)]), b[w+int(n):], true
}

// put stores a value. A failure is logged and counted.
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
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.retry()
			s.sync()
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
	s.unlock()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}
