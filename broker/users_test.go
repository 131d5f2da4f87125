package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"padme/broker"
)

func TestUsersSaveAndLoad(t *testing.T) {
	var users broker.Users
	path := filepath.Join(t.TempDir(), "users")
	for _, err := range []error{
		users.Add("alice", "first"),
		users.Grant("alice", broker.Observer),
		users.Add("alice", "a better one"), // keeps the role
		users.Add("robot 7/b", "x"),
		users.Save(path),
		users.Save(path), // replaces
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "alice:$2") || !strings.HasSuffix(lines[0], ":observer") || strings.Contains(string(text), "better") {
		t.Errorf("the file is\n%s", text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if rest, _ := filepath.Glob(path + ".*"); len(rest) > 0 {
		t.Errorf("left behind: %v", rest)
	}
	loaded, err := broker.LoadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, broker.Config{Users: loaded})
	connect(t, inProcess(b), as("alice", "a better one"))
	connect(t, inProcess(b), as("robot 7/b", "x"))
	if _, err := dial(t, inProcess(b), as("alice", "first")); err == nil {
		t.Error("the former password is still good")
	}
}

func TestBadUsers(t *testing.T) {
	var users broker.Users
	for _, err := range []error{
		users.Add("", "x"),
		users.Add("a:b", "x"),
		users.Add("#a", "x"),
		users.Add(" a", "x"),
		users.Add("a\nb", "x"),
		users.Add("\xff", "x"),
		users.Add("a", ""),
		users.Add("a", strings.Repeat("x", 73)),
		users.Grant("nobody", broker.Admin),
		users.Grant("nobody", "king"),
	} {
		if !errors.Is(err, broker.ErrInvalidUser) {
			t.Errorf("error %v", err)
		}
	}
	if err := users.Save(filepath.Join(t.TempDir(), "no", "such")); !errors.Is(err, broker.ErrUsersFile) {
		t.Errorf("save: %v", err)
	}
}

func TestBadUsersFile(t *testing.T) {
	const hash = "$2a$04$mg1V8H0BqVw6b0JXgT1wXO7bVxUyHjA4aGZJ0s0n0e6C5mZ5cJb1S"
	for _, tc := range []struct{ text, want string }{
		{"alice", ":1: expected name:hash"},
		{"\nalice:plain", `:2: user "alice" has no bcrypt hash`},
		{"alice:" + hash + ":king", `role "king"`},
		{"alice:" + hash + "\nalice:" + hash, `:2: user "alice" stands there twice`},
		{":" + hash, "user name"},
		{"alice:" + hash + ":admin:more", "expected name:hash"},
		{strings.Repeat("x", 100_000), "too long"},
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := broker.LoadUsers(path)
		if !errors.Is(err, broker.ErrUsersFile) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
	if _, err := broker.LoadUsers(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
