package process

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// Build builds programs of this module, such as padme/cmd/pubsub-node, into a new folder,
// each under its own name. A TestMain that cannot have them ends here.
func Build(programs ...string) (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "padme")
	if err == nil {
		err = build(dir, programs...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

// Program builds a program for one test and returns its path.
func Program(t testing.TB, program string) string {
	t.Helper()
	dir := t.TempDir()
	if err := build(dir, program); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, path.Base(program))
}

func build(dir string, programs ...string) error {
	build := exec.Command("go", append([]string{"build", "-o", dir + string(os.PathSeparator)}, programs...)...)
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", build.Args, err, text)
	}
	return nil
}

// Need returns the path of the first of some programs that is installed. Without one, the
// test is skipped, or fails in continuous integration, and says how to get it.
func Need(t testing.TB, remedy string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, names[0], remedy)
	return ""
}

// Missing skips a test that lacks what must be installed, or fails it in continuous
// integration.
func Missing(t testing.TB, what, remedy string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: %s", what, remedy)
	}
	t.Skipf("%s is not installed: %s", what, remedy)
}
