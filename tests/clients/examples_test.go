//go:build linux

package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"padme/tests/process"
)

// block is a file in docs/clients.md: its name in a comment, then the code.
var block = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```\\w+\n(.*?)```\n")

// examples writes the example clients into a folder as they stand in the document.
func examples(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found := map[string]bool{}
	for _, m := range block.FindAllSubmatch(text, -1) {
		name := string(m[1])
		found[name] = true
		if err := os.WriteFile(filepath.Join(dir, name), m[2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"crane.sh", "crane.py", "crane.mjs"} {
		if !found[name] {
			t.Fatalf("docs/clients.md has no %s, but %v", name, found)
		}
	}
	modules := filepath.Join(dir, "node_modules")
	if err := os.Mkdir(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	client, err := filepath.Abs(clientsJS)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(client, filepath.Join(modules, "padme-client")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell and javascript are how the examples are run.
func shell(t *testing.T) []string {
	process.Need(t, "apt-get install mosquitto-clients", "mosquitto_sub")
	return []string{process.Need(t, "apt-get install bash", "bash"), "crane.sh"}
}

func javascript(t *testing.T) []string {
	t.Helper()
	node, _ := packageJS(t)
	return []string{node, "crane.mjs"}
}
