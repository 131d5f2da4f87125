package journal

import (
	"math"
	"os"
	"path/filepath"
	"strings"

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
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + ":" + full
}

const (
	unsyncedSuffix = ".unsynced"
	payloadRun     = 4 // the first of a file of unsynced records
	minUnsynced    = 1 << 20
)

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
	for end := len(first) + frameHead; ; {
		payload, err := next(text[end:])
		if err != nil {
			return nil, false
		}
		if payload == nil {
			return records, true
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
		end += frameHead + len(payload)
	}
}

// ofRunBefore reports whether the run before this one has begun the file, since the machine
// was started.
func (j *Journal) ofRunBefore(payload []byte) bool {
	r := pack.NewReader(payload)
	r.Tuple("unsynced", 4)
	what, kind := r.Uint("payload", payloadRun), r.String("kind", math.MaxUint16)
	place, opens := r.String("place", math.MaxUint16), r.Uint("opens", math.MaxUint64)
	return r.End("record") == nil && what == payloadRun && kind == j.kind &&
		place != "" && place == Place(j.path) && opens+1 == j.opens
}

func runPayload(kind, place string, opens uint64) []byte {
	b := pack.AppendString(pack.AppendUint(pack.AppendArray(nil, 4), payloadRun), kind)
	return pack.AppendUint(pack.AppendString(b, place), opens)
}

// BeginUnsynced has Note keep records from now on, after these. The run after this one takes
// it that nothing before them has to be known. It does nothing where one run of the machine
// cannot be told from others.
func (j *Journal) BeginUnsynced(records ...[]byte) error {
	place := Place(j.path)
	if place == "" {
		return nil
	}
	return j.orForget(func() error {
		path := j.path + unsyncedSuffix
		file, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		j.closeUnsynced()
		j.notes = unsynced{file: file}
		if err := j.notes.write(append(frame(runPayload(j.kind, place, j.opens)), frames(records)...)); err != nil {
			return err
		}
		j.notes.rewriteAt = max(minUnsynced, 4*j.notes.size)
		return os.Rename(path+".new", path)
	})
}

// Note writes records that must outlive this process, but not the machine, and does not sync
// them. If it returns true, the file has grown: begin another one. After an error nothing is noted
// until then, so that the next run knows that something is missing.
func (j *Journal) Note(records ...[]byte) (grown bool, err error) {
	if j.notes.file == nil {
		return false, nil
	}
	err = j.orForget(func() error { return j.notes.write(frames(records)) })
	return j.notes.size > j.notes.rewriteAt, err
}

func (u *unsynced) write(b []byte) error {
	n, err := u.file.WriteAt(b, u.size)
	u.size += int64(n)
	return err
}

// orForget does what can fail, and then has nobody rely on the file. If that fails, too, the
// journal is broken: what it says would not be all.
func (j *Journal) orForget(do func() error) error {
	err := do()
	if err != nil {
		j.forgetUnsynced()
	}
	return err
}

func (j *Journal) forgetUnsynced() {
	j.closeUnsynced()
	if err := os.Remove(j.path + unsyncedSuffix); err != nil && !os.IsNotExist(err) && j.broken == nil {
		j.broken = err
	}
}

func (j *Journal) closeUnsynced() {
	if j.notes.file != nil {
		_ = j.notes.file.Close()
	}
	j.notes = unsynced{}
}
