package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"padme/internal/vanished"
	"padme/qosmutex/internal/pack"
)

// bootID is a file with another content each time the machine starts, in Linux.
const bootID = "/proc/sys/kernel/random/boot_id"

// Place names the file at path on this run of this machine; empty if either cannot be
// told from others.
func Place(path string) string {
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return ""
	}
	full, err := filepath.Abs(path)
	id := strings.TrimSpace(string(boot))
	if err != nil || id == "" {
		return ""
	}
	return id + ":" + full
}

const (
	unsyncedSuffix = ".unsynced"
	payloadRun     = 4 // the first of a file of unsynced records
	minUnsynced    = 1 << 20
)

// ErrUnnoted is what errors of Note and BeginUnsynced wrap after which the journal can be used as
// before, and the next run is told that something is missing.
var ErrUnnoted = errors.New("nothing is noted that need not outlive the machine")

// unsynced is the file next to the journal that outlives the process, but not the machine: what
// a process has written is in the memory of the system, which a crash of the process leaves as it is.
type unsynced struct {
	file      *os.File // nil: nothing is noted
	size      int64
	rewriteAt int64
}

// Unsynced returns, in order, what the run before this one has given to BeginUnsynced and Note.
// If all is false, some of it may be missing: the machine was restarted since, or that run had
// noted nothing.
func (j *Journal) Unsynced() (records [][]byte, all bool) {
	text, err := os.ReadFile(j.path + unsyncedSuffix)
	if err != nil {
		return nil, false
	}
	first, err := next(text)
	if err != nil || first == nil || !j.ofRunBefore(first) {
		return nil, false
	}
	for text = text[frameHead+len(first):]; len(text) > 0; {
		payload, err := next(text)
		if err != nil || payload == nil && !cutShort(text) {
			return nil, false
		}
		if payload == nil { // it was not acknowledged
			break
		}
		r := pack.NewReader(payload)
		n := r.Array("payload", math.MaxInt)
		if r.Uint("payload", math.MaxUint8) != payloadRecords {
			return nil, false
		}
		for range n - 1 {
			records = append(records, r.Bytes("record", MaxFrame))
			if r.Err() != nil {
				return nil, false
			}
		}
		text = text[frameHead+len(payload):]
	}
	return records, true
}

// cutShort reports whether a process can have been killed while it wrote the last frame. It leaves
// no zeros: those would be blocks that the file system has lost, with what was acknowledged.
func cutShort(b []byte) bool {
	if len(b) < frameHead {
		return true
	}
	n := binary.BigEndian.Uint32(b)
	return n <= MaxFrame && uint64(n)+frameHead > uint64(len(b))
}

// ofRunBefore reports whether the run before this one has begun the file, since the machine
// was started.
func (j *Journal) ofRunBefore(payload []byte) bool {
	r := pack.NewReader(payload)
	r.Tuple("unsynced", 4)
	what, kind := r.Uint("payload", payloadRun), r.String("kind", math.MaxUint16)
	place, opens := r.String("place", math.MaxUint16), r.Uint("opens", math.MaxUint64)
	return r.End("record") == nil && what == payloadRun && kind == j.kind &&
		place != "" && place == j.place && opens+1 == j.opens
}

func runPayload(kind, place string, opens uint64) []byte {
	b := pack.AppendString(pack.AppendUint(pack.AppendArray(nil, 4), payloadRun), kind)
	return pack.AppendUint(pack.AppendString(b, place), opens)
}

// WantsUnsynced reports whether BeginUnsynced is to be called: nothing is noted, or so much that it
// had better be replaced by what still counts. It is false where one run of the machine cannot be
// told from others.
func (j *Journal) WantsUnsynced() bool {
	return j.notes.size >= j.notes.rewriteAt && j.place != ""
}

// BeginUnsynced replaces what was noted by these records, which must be all that counts, and has
// Note keep others from now on. After an error it is as before.
func (j *Journal) BeginUnsynced(records ...[]byte) error {
	if err := vanished.Look(j.file, j.path); err != nil {
		return fmt.Errorf("%w: %w", ErrUnnoted, err)
	}
	path := j.path + unsyncedSuffix
	file, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnnoted, err)
	}
	notes := unsynced{file: file}
	err = notes.write(append(frame(runPayload(j.kind, j.place, j.opens)), frames(records)...))
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("%w: %w", ErrUnnoted, err)
	}
	j.closeUnsynced()
	notes.rewriteAt = max(minUnsynced, 4*notes.size)
	j.notes = notes
	return nil
}

// Note writes records that must outlive this process, but not the machine, and does not sync
// them. Before BeginUnsynced, and after an error, it does nothing. An error that is no ErrUnnoted
// means that the next run would not know that these records are missing: then the journal is
// broken, and nothing may be acknowledged any more.
func (j *Journal) Note(records ...[]byte) error {
	if j.notes.file == nil || len(records) == 0 {
		return nil
	}
	err := j.notes.write(frames(records))
	if err == nil {
		return nil
	}
	return j.forgetUnsynced(err)
}

func (u *unsynced) write(b []byte) error {
	n, err := u.file.WriteAt(b, u.size)
	u.size += int64(n)
	return err
}

// forgetUnsynced has nobody rely on what was noted, because of an error. Whoever cannot write may
// still be able to shorten or to remove. That nothing is at the path does not count, as its directory
// may be away for a moment, unless the file was removed.
func (j *Journal) forgetUnsynced(because error) error {
	if j.notes.file == nil {
		return nil
	}
	path := j.path + unsyncedSuffix
	err := j.notes.file.Truncate(0)
	switch {
	case err == nil:
	case vanished.Removed(j.notes.file):
		err = nil
	case vanished.Look(j.notes.file, path) == nil: // and not another one
		err = os.Remove(path)
	}
	j.closeUnsynced()
	if err == nil {
		return fmt.Errorf("%w: %w", ErrUnnoted, because)
	}
	if j.broken == nil {
		j.broken = fmt.Errorf("journal: %s: %w", j.path, errors.Join(because, err))
	}
	return j.broken
}

func (j *Journal) closeUnsynced() {
	if j.notes.file != nil {
		_ = j.notes.file.Close()
	}
	j.notes = unsynced{}
}
