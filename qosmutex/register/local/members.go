package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// members is a file next to the register, for what must outlive the process but not the
// machine: it is written and never synced, and counts only as long as the machine has
// not been started again.
type members struct {
	path, run string
	file      *os.File // nil: nothing is noted
	size      int
	keys      map[string]*memberSet
	since     time.Time // minus what earlier processes noted: for how long the register is known
}

// memberSet is who may hold something of one key.
type memberSet struct {
	all     map[string]bool
	settled bool // no other member does
}

// memberLine is one line of the file. The first names the run of the machine, the file of
// the register and its domain: after another one at the same place nothing counts.
type memberLine struct {
	Run     string `json:"run,omitempty"`
	AgeMS   int64  `json:"age_ms,omitempty"` // of the register, when the line was written
	Key     string `json:"key,omitempty"`
	Member  string `json:"member,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	Settled bool   `json:"settled,omitempty"`
}

// maxMembersFile is the size at which the file is rewritten with what still counts.
const maxMembersFile = 1 << 20

func openMembers(path, run string) (members, error) {
	m := members{path: path, run: run, keys: map[string]*memberSet{}, since: time.Now()}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return members{}, err
	}
	m.read(old)
	return m, m.rewrite()
}

// read takes what was noted on this run of the machine. A last line that was not
// written to its end says nothing: what it notes had no effect yet.
func (m *members) read(old []byte) {
	r := bufio.NewReader(bytes.NewReader(old))
	for first := true; ; first = false {
		text, err := r.ReadBytes('\n')
		var line memberLine
		if err != nil || json.Unmarshal(text, &line) != nil || first && line.Run != m.run {
			return
		}
		if age := time.Duration(line.AgeMS) * time.Millisecond; age > time.Since(m.since) {
			m.since = time.Now().Add(-age)
		}
		if !first {
			m.note(&line)
		}
	}
}

func (m *members) note(l *memberLine) {
	s := m.keys[l.Key]
	if s == nil {
		s = &memberSet{all: map[string]bool{}}
		m.keys[l.Key] = s
	}
	switch {
	case l.Settled:
		s.settled = true
	case l.Gone:
		delete(s.all, l.Member)
	default:
		s.all[l.Member] = true
	}
}

// rewrite begins a file with what counts now.
func (m *members) rewrite() error {
	file, err := os.OpenFile(m.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if m.file != nil {
		_ = m.file.Close()
	}
	m.file, m.size = file, 0
	err = m.write(&memberLine{Run: m.run})
	for key, s := range m.keys {
		for member := range s.all {
			err = errors.Join(err, m.write(&memberLine{Key: key, Member: member}))
		}
		if s.settled {
			err = errors.Join(err, m.write(&memberLine{Key: key, Settled: true}))
		}
	}
	return errors.Join(err, os.Rename(m.path+".new", m.path))
}

func (m *members) write(l *memberLine) error {
	l.AgeMS = time.Since(m.since).Milliseconds()
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n, err := m.file.Write(append(text, '\n'))
	m.size += n
	return err
}

// forget has nothing noted any more, so that it is not relied on.
func (m *members) forget() {
	_ = os.Remove(m.path)
	_ = m.file.Close()
	*m = members{}
}

// Members returns, in order, those whom NoteMember has named for key and not called gone, also in
// earlier processes on this run of the machine. ok is false if there may be others.
func (r *Register) Members(key string) (all []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.members.keys[key]
	if s == nil || !s.settled {
		return nil, false
	}
	return slices.Sorted(maps.Keys(s.all)), true
}

// Inhabited returns the keys that have members, as Members has them, in order.
func (r *Register) Inhabited() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for key, s := range r.members.keys {
		if len(s.all) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// NoteMember notes that a member may hold something of key from now on, or, if gone,
// that it does not any more. An empty member says that all that do are named. It
// survives the end of this process, not that of the machine. After an error nothing is
// noted any more.
func (r *Register) NoteMember(key, member string, gone bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.members
	if m.file == nil {
		return nil
	}
	line := memberLine{Key: key, Member: member, Gone: gone, Settled: member == ""}
	m.note(&line)
	err := m.write(&line)
	if err == nil && m.size > maxMembersFile {
		err = m.rewrite()
		m.size /= 2 // if many still count, not again at once
	}
	if err != nil {
		m.forget()
		return fmt.Errorf("register: noting a member: %w", err)
	}
	return nil
}
