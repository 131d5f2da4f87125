package qosmutex

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/poll"
	"padme/tests/proxy"
)

// registerFile opens a register in a file.
func registerFile(t *testing.T, path string) *local.Register {
	t.Helper()
	r, err := local.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestHoldsWithANoteGoOn: the process of a root ends while it holds, and another one comes in its place. What
// had a note, and was not unlocked, goes on there, and nobody else is let in before it is unlocked.
func TestHoldsWithANoteGoOn(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	path := filepath.Join(t.TempDir(), "register")
	cable, file := proxy.Start(t, url), registerFile(t, path)
	resources := WithResources("crane", "gate", "lift", "ramp")
	root := open(t, join(t, cable.URL(), "root"), "t", Create(), WithRegister(file), resources)
	member := open(t, join(t, url, "member"), "t")
	was := lock(t, root, "crane", WithNote([]byte("of client 7")), WithPriority(3))
	_ = lock(t, root, "gate") // for nobody else
	unlock(t, lock(t, root, "lift", WithNote(nil)))
	empty := lock(t, root, "ramp", WithNote(nil))
	held := lock(t, member, "lift")
	next := make(chan *Hold)
	go func() {
		h, err := member.Lock(testContext(t), "crane")
		if err != nil {
			t.Error(err)
		}
		next <- h
	}()
	becomes(t, root, "aware of the waiting", func(s *protocol.Status) bool { return s.Resources[0].Waiting == 1 })

	watcher := join(t, url, "watcher")
	before := State{}
	poll.Until(t, "it is published", func() bool {
		before = collectStates(t, watcher, "t", 4)["crane"]
		return before.Status == StatusHeld && before.Waiting == 1
	})

	cable.Cut()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, join(t, url, "again"), "t", Create(), WithRegister(registerFile(t, path)), Resume(), resources)
	resumed := again.Resumed()
	if len(resumed) != 2 {
		t.Fatalf("%d holds go on, want those of crane and ramp", len(resumed))
	}
	for i, h := range []*Hold{was, empty} {
		r := resumed[i]
		if r.Resource() != h.Resource() || r.Fence() != h.Fence() || r.Priority() != h.Priority() || !slices.Equal(r.Note(), h.Note()) {
			t.Errorf("%s, fence %d, priority %d and note %q goes on as %s, %d, %d, %q",
				h.Resource(), h.Fence(), h.Priority(), h.Note(), r.Resource(), r.Fence(), r.Priority(), r.Note())
		}
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", r.Resource(), err)
		}
	}
	unlock(t, lock(t, again, "gate"))
	if err := held.Check(); err != nil {
		t.Errorf("the hold of the member: %v", err)
	}
	becomes(t, again, "aware of who waits for what goes on", func(s *protocol.Status) bool { return s.Resources[0].Waiting == 1 })
	poll.Until(t, "the state says since when", func() bool {
		s := collectStates(t, watcher, "t", 4)["crane"]
		return s.Root == "again" && s.Since.Equal(before.Since) && s.How == before.How && s.Fence == before.Fence && s.Decision == nil
	})
	unlock(t, resumed[0])
	h := <-next
	if h.Fence() <= was.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), was.Fence())
	}
	unlock(t, h)
}

// TestNoteIsBounded: a note is kept with each hold.
func TestNoteIsBounded(t *testing.T) {
	t.Parallel()
	root := open(t, join(t, startBroker(t, "127.0.0.1:0").URL(), "root"), "t", Create(), WithResources("crane"))
	note := strings.Repeat("x", MaxNote)
	h := lock(t, root, "crane", WithNote([]byte(note)))
	if string(h.Note()) != note {
		t.Errorf("note %q", h.Note())
	}
	unlock(t, h)
	if _, err := root.Lock(t.Context(), "crane", WithNote([]byte(note+"x"))); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("a note that is too long: %v", err)
	}
}
