//go:build unix

package qosmutex

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/tests/capture"
)

// The directory of a server's locks is removed while it runs: it says so, and once the directory is
// there again, it recreates its file, with which the next process goes on.
func TestServerOutlivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	inVirtualTime(t, func(t *testing.T, w *world) {
		log := &capture.Text{}
		k := keeper{t: t, w: w, path: filepath.Join(dir, "register")}
		s, kill := k.serve(WithLogger(log.Logger()))
		if _, err := topicOf(t, s, "crane").Lock(t.Context(), "hook", WithNote([]byte("of client 7"))); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "make the directory again") || !s.vanished.Load() {
			t.Errorf("%d errors: %s", n, log)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if !strings.Contains(log.String(), "recreated") || s.vanished.Load() {
			t.Errorf("the directory is there again: %s", log)
		}
		kill()
		s, kill = k.serve()
		defer kill()
		if names := s.Resumes(); len(names) != 1 || names[0] != "crane" {
			t.Errorf("the next process goes on with %q", names)
		}
	})
}
