package broker

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"time"
)

const (
	// lastTail is how much of what was written during a compaction may be left to be copied
	// while nobody writes.
	lastTail = 256 << 10
	// tailRounds bounds how often the rest is copied, if it is written as fast as that.
	tailRounds = 10
)

// errClosing ends a compaction: the store is closed.
var errClosing = errors.New("the store is closed")

// compactSoon has the file rewritten, if that can be, by one goroutine at a time and not soon after it could
// not be. The caller holds mu.
func (s *store) compactSoon() {
	if s.compacting || s.closed || time.Since(s.refused) < tellAgain {
		return
	}
	s.compacting = true
	s.rewriting.Go(func() {
		err := s.compact()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.compacting = false
		if err != nil && !errors.Is(err, errClosing) {
			if s.refused = time.Now(); s.vanished.Load() {
				return // look tells
			}
			s.log.Error("the broker's log cannot be compacted", "file", s.path, "error", err)
		}
	})
}

// compact replaces the file by one of live records, of which the order does not matter, as no
// two name the same key, and of all that is written meanwhile. Who writes waits for the last
// lastTail bytes to be copied, or for more if tailRounds were not enough. It must not be called
// twice at the same time.
func (s *store) compact() error {
	if err := s.here(); err != nil { // what is in its place now may be somebody's copy
		return err
	}
	return s.rewrite()
}

// rewrite is compact where the path may name no file.
func (s *store) rewrite() error {
	next, err := os.OpenFile(s.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := s.moveTo(next); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	return nil
}

func (s *store) moveTo(next *os.File) error {
	s.mu.Lock()
	old, begun := s.file, s.end
	live := make(map[string]map[string]extent, len(s.buckets))
	for bucket, keys := range s.buckets {
		live[bucket] = maps.Clone(keys)
	}
	s.mu.Unlock()
	shift, err := s.copyLive(old, next, live)
	if err != nil {
		return err
	}
	shift -= begun // from a record of the tail in the old file to that in the new one
	copyTail := func(from, to int64) error {
		_, err := io.Copy(io.NewOffsetWriter(next, from+shift), io.NewSectionReader(old, from, to-from))
		return err
	}
	copied := begun
	for range tailRounds {
		s.mu.Lock()
		end := s.end
		s.mu.Unlock()
		if err := errors.Join(copyTail(copied, end), next.Sync()); err != nil {
			return err
		}
		if copied, end = end, end-copied; end <= lastTail {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := copyTail(copied, s.end); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), s.path); err != nil {
		return err
	}
	for bucket, keys := range s.buckets {
		for key, x := range keys {
			if x.offset >= begun {
				x.offset += shift
			} else {
				x.offset = live[bucket][key].offset
			}
			keys[key] = x
		}
	}
	_ = old.Close()
	s.file, s.end, s.dirty = next, s.end+shift, true
	return nil
}

// copyLive begins a file with the records of some extents, and tells these where they are in
// it. It returns where the next record goes.
func (s *store) copyLive(old, next *os.File, live map[string]map[string]extent) (end int64, err error) {
	w := bufio.NewWriterSize(next, 1<<20)
	if _, err := w.WriteString(magic); err != nil {
		return 0, err
	}
	end = int64(len(magic))
	for _, keys := range live {
		for key, x := range keys {
			select {
			case <-s.stop:
				return 0, errClosing
			default:
			}
			if _, err := io.Copy(w, io.NewSectionReader(old, x.offset, int64(x.size))); err != nil {
				return 0, err
			}
			x.offset = end
			keys[key] = x
			end += int64(x.size)
		}
	}
	return end, w.Flush()
}
