package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"padme/internal/vanished"
)

// Errors of Open, for errors.Is.
var (
	ErrInUse   = errors.New("another process has it open")
	ErrForeign = errors.New("it is no such file")
	ErrDamaged = errors.New("it is damaged")
	ErrCopied  = errors.New("it is a copy or was restored from a backup, and may have forgotten what was acknowledged since")
)

// lockSuffix is of the file next to the journal that says which process has it open, and how often
// it was opened.
const lockSuffix = ".lock"

// ErrTooMuch is what errors of Append wrap that was given more than MaxFrame. It has written nothing.
var ErrTooMuch = errors.New("too much at once")

// MaxFrame is how many bytes one Append may write.
const MaxFrame = 8 << 20

// Journal is an open file of records. Its methods must not be called concurrently.
type Journal struct {
	path      string
	kind      string
	place     string
	file      *os.File
	guard     *os.File // the file .lock
	unlock    func()
	uncounted bool // opens is not in the guard yet
	opens     uint64
	size      int64
	broken    error
	notes     unsynced
}

// Open opens the journal at path, or makes an empty one in a directory that exists.
// The kind tells whose journal it is. Each record is given to replay in the order in
// which it was appended; an error of replay ends Open. A record must be copied to be
// kept. Every error names the path.
func Open(path, kind string, replay func(record []byte) error) (*Journal, error) {
	path, err := filepath.Abs(path) // the working directory may change
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{path: path, kind: kind, place: Place(path)}
	if err := j.open(replay); err != nil {
		_ = j.Close()
		return nil, fmt.Errorf("journal: %s: %w", path, err)
	}
	return j, nil
}

func (j *Journal) open(replay func([]byte) error) error {
	guard, unlock, err := lockFile(j.path + lockSuffix)
	if err != nil {
		return err
	}
	j.guard, j.unlock = guard, unlock
	counted, err := readCount(guard)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		j.opens = counted + 1
		if err := j.replace(nil); err != nil {
			return err
		}
		return writeCount(guard, j.opens)
	}
	if err != nil {
		return err
	}
	end, err := j.read(text, counted, replay)
	if err != nil {
		return err
	}
	if j.file, err = os.OpenFile(j.path, os.O_RDWR, 0); err != nil {
		return err
	}
	if err := j.file.Truncate(end); err != nil {
		return err
	}
	// The count in the guard is never ahead of the one in the journal, so that a
	// crash between the two does not make the journal look like a copy.
	j.size = end
	j.opens++
	if err := j.write(frame(appendOpened(nil, j.opens))); err != nil {
		return err
	}
	return writeCount(guard, j.opens)
}

// Opens is how often the journal was opened, this time included. It rises from one
// run of a process to the next.
func (j *Journal) Opens() uint64 { return j.opens }

// Size is the length of the file in bytes.
func (j *Journal) Size() int64 { return j.size }

// Append writes records and syncs them. All of them are read back after a crash, or
// none if Append had not returned. After an error nothing more can be written, and
// whether the records were is known only when the journal is opened again.
func (j *Journal) Append(records ...[]byte) error {
	return j.write(frame(appendRecords(nil, records)))
}

func (j *Journal) write(b []byte) error {
	if j.broken != nil {
		return j.broken
	}
	if len(b) > MaxFrame {
		return fmt.Errorf("journal: %s: %w: %d bytes, at most %d are allowed", j.path, ErrTooMuch, len(b), MaxFrame)
	}
	_, err := j.file.WriteAt(b, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// The kernel may drop what it failed to write, and then report success.
		j.broken = fmt.Errorf("journal: %s: %w", j.path, err)
		_ = j.forgetUnsynced(err)
		return j.broken
	}
	j.size += int64(len(b))
	return nil
}

// Compact replaces everything that was appended by records. The journal is the old
// one or the new one, whenever a crash comes. After an error that is ErrVanished it is as
// before: what is in its place now may be somebody's copy.
func (j *Journal) Compact(records ...[]byte) error {
	if j.broken != nil {
		return j.broken
	}
	if err := vanished.Look(j.file, j.path); err != nil {
		return j.vanished(err)
	}
	if err := j.replace(records); err != nil {
		j.broken = fmt.Errorf("journal: %s: %w", j.path, err)
		_ = j.forgetUnsynced(err)
		return j.broken
	}
	return nil
}

// replace writes a new file and puts it in the place of the old one.
func (j *Journal) replace(records [][]byte) error {
	next, err := os.OpenFile(j.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	b, err := j.contents(next, records)
	if err == nil {
		_, err = next.Write(b)
	}
	if err == nil {
		err = next.Sync()
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	if j.file, err = replaceFile(next, j.path, j.file); err != nil {
		return err
	}
	j.size = int64(len(b))
	return syncDirectory(filepath.Dir(j.path))
}

func (j *Journal) contents(f *os.File, records [][]byte) ([]byte, error) {
	id, err := inode(f)
	if err != nil {
		return nil, err
	}
	return append(frame(appendHeader(nil, header{kind: j.kind, inode: id, opens: j.opens})), frames(records)...), nil
}

// frames puts records into frames of a bounded size.
func frames(records [][]byte) (b []byte) {
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size+len(records[n]) < MaxFrame/2) {
			size += len(records[n])
			n++
		}
		b = append(b, frame(appendRecords(nil, records[:n]))...)
		records = records[n:]
	}
	return b
}

// Close frees the file. Nothing that was appended is lost.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	j.closeUnsynced()
	if j.unlock != nil {
		j.unlock()
	}
	if j.broken == nil {
		j.broken = fmt.Errorf("journal: %s: closed", j.path)
	}
	return err
}
