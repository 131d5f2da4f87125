package broker

import (
	"bufio"
	"bytes"
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
	log       *slog.Logger
	path      string
	lock      *os.File // of the directory
	unwritten int64    // the most that is owed, in bytes
	limited   func(limit, user, address string)
	stop      chan struct{}
	synced    chan struct{} // closed when the syncing goroutine has ended

	failed   atomic.Int64
	vanished atomic.Bool // the file is not at its path any more

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
	magic       = "padme broker log 2\n" // earlier programs would misread records, and refuse this
	magicPrefix = "padme broker log "
	magicOne    = "padme broker log 1\n" // whose records are understood
	opPut       = 'P'
	opDelete    = 'D'
	opDrop      = 'X' // a whole bucket
	recordMax   = 512 << 20
	frame       = 8 // length and checksum
	tellAgain   = 10 * time.Second
	rubbish     = 16 << 20 // bytes of it that are not worth a rewrite
	lockName    = "lock"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openStore opens or creates the log in a directory and locks it. A torn record
// at the end, the trace of a crash, is cut off. While the disk takes nothing, so many bytes
// of changes may be unwritten; limited hears of those beyond.
func openStore(dir string, unwritten int, limited func(limit, user, address string), log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("%w: %s is in use: is another broker running with it?", ErrStore, dir)
	case err != nil:
		return nil, unusable(err)
	}
	s := &store{
		log: log, path: filepath.Join(dir, "broker.log"), lock: lock, unwritten: int64(unwritten), limited: limited,
		stop: make(chan struct{}), synced: make(chan struct{}),
		buckets: map[string]map[string]extent{},
	}
	if err := s.open(); err != nil {
		_ = lock.Close()
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
	switch string(head) {
	case magic:
	case magicOne:
		if _, err := s.file.WriteAt([]byte(magic), 0); err != nil {
			return err
		}
	default:
		if bytes.HasPrefix(head, []byte(magicPrefix)) {
			return fmt.Errorf("%s is a broker log of a later version: start that version, or choose another directory", s.path)
		}
		return fmt.Errorf("%s is no broker log, or its beginning is damaged: move it away, and the broker begins without the messages and sessions in it; other files of the directory, such as locks.register, can stay", s.path)
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
