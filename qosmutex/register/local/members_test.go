package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"
)

// reopen ends a register as a process does that is killed, and opens it again.
func reopen(t *testing.T, r *Register, path string) *Register {
	t.Helper()
	if err := r.journal.Close(); err != nil { // gives the lock on the file back, and no more
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func (r *Register) sortedMembers(t *testing.T, key string) []string {
	t.Helper()
	all, ok := r.Members(key)
	if !ok {
		t.Fatalf("the members of %s are not known", key)
	}
	slices.Sort(all)
	return all
}

func note(t *testing.T, r *Register, key, member string, gone bool) {
	t.Helper()
	if err := r.NoteMember(key, member, gone); err != nil {
		t.Fatal(err)
	}
}

// Members are known after the process was killed, once somebody said that they are all.
func TestMembersOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "a", false)
	note(t, r, "crane", "b", false)
	if _, ok := r.Members("crane"); ok {
		t.Error("members count before anybody said that they are all")
	}
	r = reopen(t, r, path)
	if _, ok := r.Members("crane"); ok {
		t.Error("after a restart members count that may not be all")
	}
	note(t, r, "crane", "", false)
	note(t, r, "crane", "a", true)
	note(t, r, "crane", "c", false)
	r = reopen(t, r, path)
	if all := r.sortedMembers(t, "crane"); !slices.Equal(all, []string{"b", "c"}) {
		t.Errorf("members %v, want b and c", all)
	}
	if _, ok := r.Members("lift"); ok {
		t.Error("members of a key that nobody named")
	}
}

// What was noted before the machine was started again says nothing: there may be
// members on other machines that were not noted since.
func TestMembersDoNotOutliveTheMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "", false)
	text, err := os.ReadFile(path + ".members")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".members", append([]byte(`{"run":"before"}`+"\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	r = reopen(t, r, path)
	if _, ok := r.Members("crane"); ok {
		t.Error("members of before the machine was started again count")
	}
}

// A line that was not written to its end had no effect.
func TestTornMemberLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "a", false)
	note(t, r, "crane", "", false)
	f, err := os.OpenFile(path+".members", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"key":"crane","mem`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	r = reopen(t, r, path)
	if all := r.sortedMembers(t, "crane"); !slices.Equal(all, []string{"a"}) {
		t.Errorf("members %v, want a", all)
	}
}

// After an error somebody may be missing, so nobody counts, also not after a restart.
func TestMembersAfterAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "a", false)
	note(t, r, "crane", "", false)
	if err := r.members.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.NoteMember("crane", "b", false); err == nil {
		t.Fatal("a member is noted in a file that is closed")
	}
	if all, ok := r.Members("crane"); ok {
		t.Errorf("members %v count, and b is missing", all)
	}
	if err := r.NoteMember("crane", "c", false); err != nil {
		t.Errorf("the next member: %v", err)
	}
	r = reopen(t, r, path)
	if all, ok := r.Members("crane"); ok {
		t.Errorf("after a restart members %v count, and b is missing", all)
	}
}

// Members that come and go do not let the file grow.
func TestMembersFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "stays", false)
	note(t, r, "crane", "", false)
	for i := range 30_000 {
		member := "member-" + strconv.Itoa(i)
		note(t, r, "crane", member, false)
		note(t, r, "crane", member, true)
	}
	st, err := os.Stat(path + ".members")
	if err != nil {
		t.Fatal(err)
	}
	if n := st.Size(); n > minRewrite+1000 {
		t.Errorf("%d bytes", n)
	}
	r = reopen(t, r, path)
	if all := r.sortedMembers(t, "crane"); !slices.Equal(all, []string{"stays"}) {
		t.Errorf("members %v, want the one that stays", all)
	}
}

// How long the register has been there is known after the process was killed; one that
// took the place of a deleted file is new, and knows no members.
func TestAgeOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r.members.since = r.members.since.Add(-time.Hour) // it is an hour old
	note(t, r, "crane", "a", false)
	note(t, r, "crane", "", false)
	r = reopen(t, r, path)
	if r.Age() < time.Hour {
		t.Errorf("after a restart it is %v old, and was more than an hour", r.Age())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r = reopen(t, r, path)
	if _, ok := r.Members("crane"); ok || r.Age() > time.Minute {
		t.Errorf("with a new file it is %v old, and knows the members of the old one: %v", r.Age(), ok)
	}
}

// What this process holds is known after it was killed, but for what it had left.
func TestHoldsOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := Hold{Resource: "a", Fence: 7, Priority: -2, Note: []byte("of\nclient")}, Hold{Resource: "b", Fence: 8}
	must(r.NoteMember("crane", "", false))
	must(r.NoteTerm("crane", 3))
	must(r.NoteHold("crane", a, false))
	must(r.NoteHold("crane", b, false))
	must(r.NoteHold("lift", b, false))
	must(r.NoteHold("lift", Hold{Resource: "b"}, true))
	for range 2 { // the second time from the file that the first run has rewritten
		r = reopen(t, r, path)
		held, terms := r.Held("crane"), r.Terms("crane")
		if !reflect.DeepEqual(held, []Hold{a, b}) || !slices.Equal(terms, []uint64{3}) {
			t.Errorf("holds %v of terms %d", held, terms)
		}
		if held := r.Held("lift"); len(held) > 0 {
			t.Errorf("%v has been left", held)
		}
		if keys := r.Inhabited(); !slices.Equal(keys, []string{"crane"}) {
			t.Errorf("somebody holds something of %v", keys)
		}
	}
	must(r.Forget("crane"))
	r = reopen(t, r, path)
	if held := r.Held("crane"); len(held) > 0 {
		t.Errorf("%v is forgotten", held)
	}
	if _, ok := r.Members("crane"); ok {
		t.Error("members count, and somebody else may go by a hold that was forgotten")
	}
}

// After damage nobody counts that was named before it: somebody named behind it may have held.
func TestDamagedMembersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "a", false)
	note(t, r, "crane", "", false)
	text, err := os.ReadFile(path + ".members")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".members", append(text, "{\"key\":\n{\"key\":\"crane\",\"member\":\"b\"}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	r = reopen(t, r, path)
	if all, ok := r.Members("crane"); ok {
		t.Errorf("%v are said to be all members", all)
	}
}

// Terms, signs of life and what is forgotten outlive the process, too.
func TestTermsAndSignsOfLifeOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lived(); ok || !r.Notes() {
		t.Errorf("in a new file somebody lived: %v, and notes are kept: %v", ok, r.Notes())
	}
	var want []uint64
	for i := range uint64(maxTerms + 3) {
		if err := errors.Join(r.NoteTerm("crane", i+1), r.NoteTerm("gate", i+1), r.Live(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if i >= 3 {
			want = append(want, i+1)
		}
	}
	note(t, r, "crane", "", false)
	note(t, r, "gate", "", false)
	if err := errors.Join(r.Forget("gate"), r.NoteTerm("lift", 7), r.NoteTerm("lift", 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r = reopen(t, r, path)
		if got := r.Terms("crane"); !slices.Equal(got, want) {
			t.Errorf("terms %v, want %v", got, want)
		}
		if got := r.Terms("lift"); len(got) != 0 {
			t.Errorf("terms %v of a participant that is not the root", got)
		}
		if _, ok := r.Members("gate"); ok || len(r.Terms("gate")) != 0 {
			t.Errorf("of what was forgotten there are terms %v, or all members: %v", r.Terms("gate"), ok)
		}
		if last, ok := r.Lived(); !ok || last != (maxTerms+2)*time.Second {
			t.Errorf("it lived at %v, %v", last, ok)
		}
		if got := r.Noted(); !slices.Contains(got, "crane") || slices.Contains(got, "gate") {
			t.Errorf("noted are %v", got)
		}
	}
	r.members.run = "another run of the machine"
	if err := r.Live(time.Hour); err != nil {
		t.Fatal(err)
	}
	if last, ok := reopen(t, r, path).Lived(); ok {
		t.Errorf("it lived at %v on another run of the machine", last)
	}
	if Memory().Notes() {
		t.Error("notes are kept in memory")
	}
}

// Done says that a register answers nothing any more, and Err why.
func TestDoneTellsOfTheEnd(t *testing.T) {
	r := Memory()
	select {
	case <-r.Done():
		t.Error("it is done at once")
	default:
	}
	if err := errors.Join(r.Err(), r.Close()); err != nil {
		t.Error(err)
	}
	<-r.Done()
	if r.Err() == nil {
		t.Error("closed without an error")
	}
}

// However much is noted, a line is one write: the file is rewritten only when it has grown manifold.
func TestManyHoldsAreNotedLineByLine(t *testing.T) {
	r, err := Open(filepath.Join(t.TempDir(), "register"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := &r.members
	file, rewrites := m.file, 0
	for i := 0; i < 20_000 && rewrites <= 3; i++ {
		if err := r.NoteHold("crane", Hold{Resource: fmt.Sprint("hook ", i), Fence: uint64(i) + 1, Note: make([]byte, 200)}, false); err != nil {
			t.Fatal(err)
		}
		if m.file != file {
			file, rewrites = m.file, rewrites+1
		}
	}
	if m.size < 4*minRewrite || rewrites > 3 {
		t.Errorf("rewritten %d times up to %d bytes", rewrites, m.size)
	}
}
