package journal

import (
	"errors"
	"fmt"

	"padme/internal/vanished"
)

// ErrVanished is what errors wrap if the journal's path does not name its file any more. What is
// appended is lost then when the process ends.
var ErrVanished = errors.New("it is not at its path any more")

// Look reports whether the journal, or the file .lock next to it, is not at its path any more. If it
// was removed and nothing is in its place, Look recreates it with these records, which must be all
// that count, and returns true. After an error that is ErrVanished the journal is as before.
func (j *Journal) Look(records func() [][]byte) (recreated bool, err error) {
	if j.broken != nil {
		return false, j.broken
	}
	file, guard := vanished.Look(j.file, j.path), vanished.LookGuard(j.guard, j.path+lockSuffix, j.file, j.path)
	if file != nil && !vanished.Gone(file) {
		return false, j.vanished(file)
	}
	if file == nil && guard == nil && !j.uncounted {
		return false, j.lookUnsynced()
	}
	if guard != nil {
		if err := j.guardAnew(); err != nil {
			return false, j.vanished(err)
		}
	}
	if err := j.count(); err != nil {
		return false, j.vanished(err)
	}
	if file != nil {
		was := j.file
		if err := j.replace(records()); err != nil && j.file == was {
			return false, j.vanished(fmt.Errorf("%w, and cannot be recreated: do not stop this process, which would lose what it keeps there: %w", file, err))
		} else if err != nil {
			j.broken = fmt.Errorf("journal: %s: %w", j.path, err)
			_ = j.forgetUnsynced(err)
			return false, j.broken
		}
	}
	return true, j.lookUnsynced()
}

// lookUnsynced has WantsUnsynced ask for a new file of unsynced records if that is not at its path any
// more. The one that was there counts no more, even if somebody puts it back. A path that cannot be
// looked at now says nothing.
func (j *Journal) lookUnsynced() error {
	if j.notes.file == nil {
		return nil
	}
	if err := vanished.Look(j.notes.file, j.path+unsyncedSuffix); err != nil && !vanished.Unknown(err) {
		_ = j.forgetUnsynced(err)
	}
	return j.broken
}

func (j *Journal) vanished(err error) error { return fmt.Errorf("journal: %w: %w", ErrVanished, err) }

// guardAnew takes the lock of the file that is there now, so that no other process opens the journal. It
// keeps that whether or not the count can be written there.
func (j *Journal) guardAnew() error {
	path := j.path + lockSuffix
	guard, unlock, err := lockFile(path)
	if errors.Is(err, ErrInUse) {
		return fmt.Errorf("%s was replaced, and %w now: stop that one, and not this process, which would lose what it keeps in %s", path, err, j.path)
	}
	if err != nil {
		return err
	}
	j.unlock()
	j.guard, j.unlock, j.uncounted = guard, unlock, true
	return nil
}

// count writes the count to a guard that lacks it.
func (j *Journal) count() error {
	if !j.uncounted {
		return nil
	}
	if err := writeCount(j.guard, j.opens); err != nil {
		return fmt.Errorf("%s was recreated, and cannot be written, so that a copy of %s would not be recognized: %w", j.path+lockSuffix, j.path, err)
	}
	j.uncounted = false
	return nil
}
