package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"padme/internal/vanished"
)

// members is a file next to the register, for what must outlive the process but not the
// machine: it is written and never synced, and counts only as long as the machine has
// not been started again.
type members struct {
	path, run string
	file      *os.File // nil: nothing is noted
	size      int
	rewriteAt int   // the size at which it is rewritten
	unwritten error // why it could not be; see Unrewritten
	keys      map[string]*memberSet
	signs     *os.File      // of life
	lived     time.Duration // the last sign of life of an earlier process, by its clock
	since     time.Time     // minus what earlier processes noted: for how long the register is known
}

// memberSet is who may hold something of one key.
type memberSet struct {
	all     map[string]bool
	settled bool            // no other member does
	held    map[string]Hold // by this process, by resource
	terms   []uint64        // in which it was the root, the last of which it held that in; none: it is not
	next    uint64          // in which it is about to be the root; 0: none
	session Session         // under which it held that as a member; zero: none
}

// Session is one that a root gave a process: the process as the root knows it, and the number.
type Session struct {
	Incarnation uint64 `json:"incarnation"`
	Number      uint64 `json:"number"` // 0: none
}

// maxTerms bounds the terms that are remembered: those of processes which were started again and
// again.
const maxTerms = 16

// Hold is what this process holds for somebody who goes by it when the process has ended.
type Hold struct {
	Resource string `json:"resource"`
	Fence    uint64 `json:"fence,omitempty"`
	Priority int64  `json:"priority,omitempty"`
	Client   string `json:"client,omitempty"` // on whose behalf
	Note     []byte `json:"note,omitempty"`   // of who asked for it
}

// memberLine is one line of the file. The first names the run of the machine, the file of
// the register and its domain: after another one at the same place nothing counts.
type memberLine struct {
	Run     string   `json:"run,omitempty"`
	AgeMS   int64    `json:"age_ms,omitempty"` // of the register, when the line was written
	Key     string   `json:"key,omitempty"`
	Member  string   `json:"member,omitempty"`
	Gone    bool     `json:"gone,omitempty"`
	Settled bool     `json:"settled,omitempty"` // gone: not any more
	Hold    *Hold    `json:"hold,omitempty"`    // gone: only the resource counts
	Next    bool     `json:"next,omitempty"`    // Term: the register may say so soon
	Term    *uint64  `json:"term,omitempty"`    // of all holds
	Session *Session `json:"session,omitempty"` // of all holds
	Forget  bool     `json:"forget,omitempty"`  // all of the key
}

// minRewrite is the size below which the file is not rewritten with what still counts.
const minRewrite = 1 << 20

func openMembers(path, run string) (members, error) {
	m := members{path: path, run: run, keys: map[string]*memberSet{}, since: time.Now()}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return members{}, err
	}
	m.read(old)
	if err := m.rewrite(); err != nil {
		return m, err
	}
	m.signs, m.lived, err = openSigns(path+signsSuffix, run)
	return m, err
}

// signsSuffix is of the file of signs of life, next to that of members.
const signsSuffix = ".alive"

// openSigns opens the file that has the last sign of life, in place of that of an earlier process
// on this run of the machine.
func openSigns(path, run string) (file *os.File, last time.Duration, err error) {
	if file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, 0, err
	}
	var of string
	if _, err := fmt.Fscanf(file, "%d %q\n", &last, &of); err != nil || of != run {
		last = 0
	}
	return file, last, nil
}

// read takes what was noted on this run of the machine. A last line that was not
// written to its end says nothing: what it notes had no effect yet. Damage before that
// leaves nothing to rely on.
func (m *members) read(old []byte) {
	r := bufio.NewReader(bytes.NewReader(old))
	for first := true; ; first = false {
		text, err := r.ReadBytes('\n')
		var line memberLine
		if err != nil {
			return
		}
		if json.Unmarshal(text, &line) != nil || first && line.Run != m.run {
			clear(m.keys)
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
		s = &memberSet{all: map[string]bool{}, held: map[string]Hold{}}
		m.keys[l.Key] = s
	}
	switch {
	case l.Forget:
		delete(m.keys, l.Key)
	case l.Session != nil:
		s.session = *l.Session
	case l.Term != nil && *l.Term == 0:
		s.terms, s.next = nil, 0
	case l.Term != nil && l.Next && slices.Contains(s.terms, *l.Term):
	case l.Term != nil && l.Next:
		s.next = *l.Term
	case l.Term != nil && slices.Contains(s.terms, *l.Term):
		s.session = Session{}
	case l.Term != nil:
		s.session, s.next = Session{}, 0
		s.terms = append(s.terms[max(0, len(s.terms)+1-maxTerms):], *l.Term)
	case l.Hold != nil && l.Gone:
		delete(s.held, l.Hold.Resource)
	case l.Hold != nil:
		s.held[l.Hold.Resource] = *l.Hold
	case l.Settled && l.Gone:
		s.settled = false
		clear(s.all)
	case l.Settled:
		s.settled = true
	case l.Gone:
		delete(s.all, l.Member)
	default:
		s.all[l.Member] = true
	}
	if s.empty() {
		delete(m.keys, l.Key)
	}
}

// empty reports whether nothing is noted of the key.
func (s *memberSet) empty() bool {
	return len(s.all)+len(s.held)+len(s.terms) == 0 && !s.settled && s.next == 0 && s.session.Number == 0
}

// rewrite begins a file with what counts now. After an error the one before is kept.
func (m *members) rewrite() error {
	file, err := os.OpenFile(m.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size := 0
	all := bufio.NewWriterSize(file, 64<<10)
	write := func(l *memberLine) {
		if err == nil {
			var n int
			n, err = m.writeTo(all, l)
			size += n
		}
	}
	write(&memberLine{Run: m.run})
	for key, s := range m.keys {
		for member := range s.all {
			write(&memberLine{Key: key, Member: member})
		}
		for _, h := range s.held {
			write(&memberLine{Key: key, Hold: &h})
		}
		for _, term := range s.terms {
			write(&memberLine{Key: key, Term: &term})
		}
		if s.next != 0 {
			write(&memberLine{Key: key, Term: &s.next, Next: true})
		}
		if s.session.Number != 0 {
			write(&memberLine{Key: key, Session: &s.session})
		}
		if s.settled {
			write(&memberLine{Key: key, Settled: true})
		}
	}
	if err = errors.Join(err, all.Flush()); err == nil {
		err = os.Rename(m.path+".new", m.path)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(m.path+".new")) // it may fill a disk
	}
	if m.file != nil {
		_ = m.file.Close()
	}
	m.file, m.size = file, size
	m.rewriteAt = max(minRewrite, 4*m.size) // however much counts, so that a line costs no more
	return nil
}

func (m *members) writeTo(w io.Writer, l *memberLine) (n int, err error) {
	l.AgeMS = time.Since(m.since).Milliseconds()
	text, err := json.Marshal(l)
	if err != nil {
		return 0, err
	}
	return w.Write(append(text, '\n'))
}

// compact is rewrite where the path names the file: what is in its place now may be another process's. A
// file that cannot be rewritten has what counts, and grows.
func (m *members) compact() {
	err := vanished.Look(m.file, m.path)
	if err == nil { // else look tells
		err = m.rewrite()
		m.unwritten = err
	}
	if err != nil {
		m.rewriteAt = 2 * m.size
	}
}

// forget has nothing noted any more, so that it is not relied on, wherever the file is now. Whoever
// cannot write may still be able to shorten or to remove.
func (m *members) forget() {
	if m.file.Truncate(0) != nil {
		_ = os.Remove(m.path)
	}
	_ = m.close()
	*m = members{}
}

func (m *members) close() error {
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	if m.signs != nil {
		err = errors.Join(err, m.signs.Close())
	}
	return err
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

// Held returns, by resource, what NoteHold has named for key and not called gone, also in
// earlier processes on this run of the machine.
func (r *Register) Held(key string) (held []Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.members.keys[key]
	if s == nil {
		return nil
	}
	for _, resource := range slices.Sorted(maps.Keys(s.held)) {
		held = append(held, s.held[resource])
	}
	return held
}

// Noted returns the keys of which anything is noted, also by earlier processes on this run of
// the machine, in order.
func (r *Register) Noted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.members.keys))
}

// Inhabited returns the keys that have members, as Members has them, or holds, in order.
func (r *Register) Inhabited() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for key, s := range r.members.keys {
		if len(s.all) > 0 || len(s.held) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// NoteMember notes that a member may hold something of key from now on, or, if gone,
// that it does not any more. An empty member says that all are named who may, or, if gone, that
// there may be others, and forgets those that were named. It survives the end of this process, not
// that of the machine. After an error nothing is noted any more.
func (r *Register) NoteMember(key, member string, gone bool) error {
	return r.noteLine(&memberLine{Key: key, Member: member, Gone: gone, Settled: member == ""})
}

// NoteHold notes, as NoteMember does, that this process holds h of key, or, if gone, that
// it does not hold h.Resource any more.
func (r *Register) NoteHold(key string, h Hold, gone bool) error {
	return r.noteLine(&memberLine{Key: key, Hold: &h, Gone: gone})
}

// Terms returns the last terms in which NoteTerm says that this process or, without a pause, one
// before it was the root, and, as the last one, that of NoteNext.
func (r *Register) Terms(key string) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.members.keys[key]
	switch {
	case s == nil:
		return nil
	case s.next != 0:
		return append(slices.Clone(s.terms), s.next)
	}
	return slices.Clone(s.terms)
}

// NoteNext notes that the register may name this process the root of that term from now on.
func (r *Register) NoteNext(key string, term uint64) error {
	return r.noteLine(&memberLine{Key: key, Term: &term, Next: true})
}

// NoteTerm notes that this process is the root of that term, and holds what is noted as
// such; 0: it is not the root.
func (r *Register) NoteTerm(key string, term uint64) error {
	return r.noteLine(&memberLine{Key: key, Term: &term})
}

// NoteSession notes that this process holds what is noted as a member, under that session, until
// NoteTerm says that it is the root.
func (r *Register) NoteSession(key string, s Session) error {
	return r.noteLine(&memberLine{Key: key, Session: &s})
}

// Session returns what NoteSession has named for key, also of earlier processes on this run of the
// machine.
func (r *Register) Session(key string) Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.members.keys[key]; s != nil {
		return s.session
	}
	return Session{}
}

// Forget forgets all that is noted of key: there may be other members, and other holds.
func (r *Register) Forget(key string) error {
	return r.noteLine(&memberLine{Key: key, Forget: true})
}

// Notes reports whether what is noted is kept. It is not without a file, nor where one run of
// the machine cannot be told from others, nor after an error.
func (r *Register) Notes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members.file != nil
}

// Live notes that this process lives, by a clock of the machine that no process sets.
func (r *Register) Live(now time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.members
	if m.signs == nil {
		return nil
	}
	if _, err := m.signs.WriteAt(fmt.Appendf(nil, "%020d %q\n", now, m.run), 0); err != nil {
		m.forget()
		return fmt.Errorf("register: noting that this process lives: %w", err)
	}
	return nil
}

// Lived returns what the process before this one told Live last, on this run of the machine.
func (r *Register) Lived() (last time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members.lived, r.members.lived != 0
}

func (r *Register) noteLine(line *memberLine) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.members
	if m.file == nil {
		return nil
	}
	m.note(line)
	n, err := m.writeTo(m.file, line)
	m.size += n
	if err != nil {
		m.forget()
		return fmt.Errorf("register: noting who may hold: %w", err)
	}
	if m.size > m.rewriteAt {
		m.compact()
	}
	return nil
}

// Unrewritten returns, once for each attempt, why the file of what is noted could not be rewritten with
// what still counts, so that it grows.
func (r *Register) Unrewritten() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.members.unwritten
	r.members.unwritten = nil
	return err
}
