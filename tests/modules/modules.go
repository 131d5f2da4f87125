// Package modules runs the tests of JavaScript modules with node's own test runner.
package modules

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"padme/tests/process"
)

// Test runs the test files that match pattern, relative to the folder of the test.
// In them and in what they import, "/base/…" is cmd/internal/web/base, as it is in
// the browser. Without node it skips, or fails where CI is "true".
func Test(t *testing.T, pattern string) {
	t.Helper()
	node := process.Need(t, "apt-get install nodejs", "node")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no test matches %s: %v", pattern, err)
	}
	hook := hook(t)
	look(t, ".")
	look(t, filepath.Dir(filepath.Dir(hook)))
	args := append([]string{"--import", hook, "--test"}, files...)
	if out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput(); err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
}

// hook is the file that teaches node what /base/ is.
func hook(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "cmd/internal/web/base/test/hook.js")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the folder of the test")
		}
		dir = filepath.Dir(dir)
	}
}

// look has the go command know which files the result depends on, so that it does not
// take a cached one after a change.
func look(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".js" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
