package broker

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// logsIn reports whether a CONNECT is accepted in time.
func logsIn(t *testing.T, b *Broker, password string, in time.Duration) bool {
	t.Helper()
	c, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(hello("alice", password)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(in))
	answer := make([]byte, 4)
	n, _ := c.Read(answer)
	return n == 4 && answer[3] == 0
}

// moment is for what would come in microseconds, and does not.
const moment = 100 * time.Millisecond

// A client whose password was right before the broker was started again waits for no check, and
// nothing else in the directory lets a client in.
func TestWhoWasRightBeforeARestartIsAtOnce(t *testing.T) {
	t.Parallel()
	dir, users := filepath.Join(t.TempDir(), "run"), alone(t)
	first := started(t, Config{Users: users, RuntimeDir: dir})
	if !logsIn(t, first, "alice", halfOfPatience) {
		t.Fatal("refused")
	}
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := func(change func(path string)) *Broker {
		t.Helper()
		if change != nil {
			change(filepath.Join(dir, recallName))
		}
		others := reloaded(t, users)
		if err := others.Add("broker", "its own"); err != nil { // as the command does before it starts
			t.Fatal(err)
		}
		b := started(t, Config{Users: others, RuntimeDir: dir})
		guess(t, b)
		return b
	}
	b := again(nil)
	if !logsIn(t, b, "alice", halfOfPatience) {
		t.Error("the right password waits")
	}
	if logsIn(t, b, "Alice", moment) {
		t.Error("a wrong password is right")
	}
	for name, text := range map[string]string{"empty": "", "no key": "zz\nalice:00\n", "short": "0011\n", "another key": strings.Repeat("00", 32) + "\n"} {
		keep, err := os.ReadFile(filepath.Join(dir, recallName))
		if err != nil {
			t.Fatal(err)
		}
		if logsIn(t, again(func(path string) { _ = os.WriteFile(path, []byte(text), 0o600) }), "alice", moment) {
			t.Errorf("%s: let in by what is not there", name)
		}
		if err := os.WriteFile(filepath.Join(dir, recallName), keep, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed := reloaded(t, users)
	changed.accounts["alice"].hash = []byte(hashed(t, "other"))
	other := started(t, Config{Users: changed, RuntimeDir: dir})
	guess(t, other)
	if logsIn(t, other, "alice", moment) {
		t.Error("a password is right that was changed meanwhile")
	}
}

// What others may write is refused, as they could log in as anybody.
func TestARuntimeDirectoryOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	for name, arrange := range map[string]func(dir, file string) error{
		"the directory": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"the file": func(_, file string) error {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return err
			}
			return os.Chmod(file, 0o640)
		},
		"a link":        func(_, file string) error { return os.Symlink("/dev/null", file) },
		"no plain file": func(_, file string) error { return os.Mkdir(file, 0o700) },
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := arrange(dir, filepath.Join(dir, recallName)); err != nil {
			t.Fatal(err)
		}
		if b, err := Start(t.Context(), Config{Users: alone(t), RuntimeDir: dir}); err == nil {
			_ = b.Close(context.Background())
			t.Errorf("%s: believed", name)
		} else if !strings.Contains(err.Error(), "log in as anybody") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// systemd's directory is a link to one of its own. A write that fails is tried again.
func TestARuntimeDirectoryBehindALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a right of their own")
	}
	at := t.TempDir()
	dir, link := filepath.Join(at, "private"), filepath.Join(at, "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("private", link); err != nil {
		t.Fatal(err)
	}
	users := alone(t)
	users.accounts["bob"] = &account{hash: []byte(hashed(t, "bob"))}
	b := started(t, Config{Users: users, RuntimeDir: link})
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	if !logsIn(t, b, "alice", halfOfPatience) {
		t.Fatal("refused")
	}
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	if !users.check([]byte("bob"), []byte("bob")) {
		t.Fatal("wrong")
	}
	if text, err := os.ReadFile(filepath.Join(dir, recallName)); err != nil || !strings.Contains(string(text), "alice:") {
		t.Errorf("%q, %v", text, err)
	}
}
