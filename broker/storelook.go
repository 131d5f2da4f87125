package broker

import (
	"errors"
	"fmt"
	"time"

	"padme/internal/throttle"
	"padme/internal/vanished"
)

// look notices that the file, or that of the lock next to it, is not at its path any more: what is
// written is lost then when the broker ends. If it was removed, and nothing is in its place, it is
// recreated. told is what was logged of that. Only the goroutine that syncs calls look.
func (s *store) look(told *throttle.Log[string]) {
	recreated, err := s.lookAgain()
	if err != nil && told.May("vanished", time.Now()) {
		s.log.Error("the broker's messages and sessions are lost when it ends: their file has vanished", "error", err)
	}
	switch was := s.vanished.Swap(err != nil); {
	case recreated:
		s.log.Warn("the broker's log was removed: it has been recreated", "file", s.path)
	case was && err == nil:
		s.log.Warn("the broker's log is at its path again", "file", s.path)
	}
}

func (s *store) lookAgain() (recreated bool, err error) {
	file, lock := s.here(), s.guarded()
	if file != nil && !vanished.Gone(file) {
		return false, file
	}
	if lock != nil {
		next, err := lockFile(s.lock.Name())
		if errors.Is(err, errLocked) {
			return false, fmt.Errorf("%s was replaced, and another broker is running with the directory now: stop that one, and not this one, which would lose what it keeps in %s", s.lock.Name(), s.path)
		}
		if err != nil {
			return false, err
		}
		_ = s.lock.Close()
		s.lock = next
	}
	if file == nil {
		return false, nil
	}
	if err := s.rewriteNow(); errors.Is(err, errCompacting) {
		return false, file // what it opened may be in the directory that was removed
	} else if err != nil {
		return false, fmt.Errorf("%w, and cannot be recreated: do not stop the broker, which would lose what it keeps there: %w", file, err)
	}
	return true, nil
}

// here compares the file with what its path names.
func (s *store) here() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return vanished.Look(s.file, s.path)
}

// guarded compares the lock with what its path names.
func (s *store) guarded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return vanished.LookGuard(s.lock, s.lock.Name(), s.file, s.path)
}

// errCompacting refuses a second compaction at the same time.
var errCompacting = errors.New("a compaction is under way")

// rewriteNow is rewrite, unless a compaction is under way.
func (s *store) rewriteNow() error {
	s.mu.Lock()
	if s.compacting {
		s.mu.Unlock()
		return errCompacting
	}
	s.compacting = true
	s.mu.Unlock()
	err := s.rewrite()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacting = false
	return err
}
