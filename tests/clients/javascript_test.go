//go:build linux

package clients

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"padme/tests/extent"
	"padme/tests/process"
)

// clientsJS is the JavaScript package.
const clientsJS = "../../clients/js"

// packageJS returns node, and the package's folder, for a test of it.
func packageJS(t *testing.T) (node, dir string) {
	t.Helper()
	dir, err := filepath.Abs(clientsJS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules/mqtt")); err != nil {
		process.Missing(t, "the npm package mqtt", "npm ci --prefix clients/js")
	}
	// So that the go command takes no result from its cache after a change.
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return process.Need(t, "apt-get install nodejs", "node"), dir
}

// The package's own tests, by node's test runner.
func TestJavaScriptPackage(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	node, dir := packageJS(t)
	process.Need(t, "apt-get install mosquitto", "mosquitto")
	files, err := filepath.Glob(filepath.Join(dir, "test/*.test.js"))
	if err != nil || len(files) < 5 {
		t.Fatalf("tests of the package: %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.js"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=tap", file)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PUBSUB_NODE="+bin)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("node --test %s: %v\n%s", file, err, out)
			}
		})
	}
}

// A program of its own folder installs the package as its README says, and locks.
func TestJavaScriptPackageInstalls(t *testing.T) {
	extent.NotShort(t, "real processes")
	node, dir := packageJS(t)
	npm := process.Need(t, "apt-get install npm", "npm")
	onSites(t, func(s *site) {
		s.gateway("gw")
		mine := s.TempDir()
		install := exec.CommandContext(s.Context(), npm, "install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", "--install-links", dir)
		install.Dir = mine
		if out, err := install.CombinedOutput(); err != nil {
			s.Fatalf("npm install: %v\n%s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "example.mjs"))
		if err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mine, "main.mjs"), text, 0o600); err != nil {
			s.Fatal(err)
		}
		p := start(s.T, "example", mine, nil, node, "main.mjs", s.url)
		p.Await(s.T, patience)
		if got := p.Printed(); !strings.HasPrefix(got, "in with fence ") || !strings.HasSuffix(got, "\ndown 1\ndown 2\ndown 3\n") {
			s.Errorf("it printed %q", got)
		}
	})
}
