package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page names scenarios of the lock machine, or of the lease, by the files that they
// are in: "scenario `fig5_sync`", "lease scenarios `fences`, `takeover`".
var (
	scenarios    = regexp.MustCompile("(lease)?(?:^| )scenarios? ((?:`[a-z0-9_*…]+`(?:, | and |,? or )?)+)")
	scenarioDirs = map[string]string{"": "qosmutex/padme/testdata", "lease": "qosmutex/lease/testdata"}
)

// missingScenarios returns the files that a text names and that are not there.
func missingScenarios(text string, there func(path string) bool) (missing []string) {
	for _, m := range scenarios.FindAllStringSubmatch(text, -1) {
		for _, name := range codeInLine.FindAllString(m[2], -1) {
			if path := scenarioDirs[m[1]] + "/" + strings.ReplaceAll(strings.Trim(name, "`"), "…", "*"); !there(path) {
				missing = append(missing, path)
			}
		}
	}
	return missing
}

func isThere(path string) bool {
	found, err := filepath.Glob(filepath.Join(root, path))
	return err == nil && len(found) > 0
}

func TestScenariosAreThere(t *testing.T) {
	seen := 0
	for _, page := range pages(t) {
		text := read(t, page)
		seen += len(scenarios.FindAllString(text, -1))
		for _, path := range missingScenarios(text, isThere) {
			t.Errorf("%s: there is no scenario %s", page, path)
		}
	}
	if seen < 50 {
		t.Errorf("the pages name only %d scenarios", seen)
	}
}

// Everything that docs/guarantees.md says of a failure is shown by a test, and every
// bug in docs/robustness.md by one that guards against it.
func TestPromisesAreTested(t *testing.T) {
	for _, c := range []struct {
		page, title string
		least       int
	}{
		{"docs/guarantees.md", "When something breaks", 15},
		{"docs/robustness.md", "The lock", 100},
		{"docs/robustness.md", "The register", 5},
		{"docs/robustness.md", "Publish and subscribe", 50},
	} {
		_, text, found := strings.Cut(read(t, c.page), "\n## "+c.title+"\n")
		if !found {
			t.Fatalf("%s has no section %q", c.page, c.title)
		}
		text, _, _ = strings.Cut(text, "\n## ")
		rows := 0
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			if !strings.HasPrefix(line, "| ") || len(cells) < 3 || strings.HasPrefix(line, "| what ") {
				continue
			}
			if rows++; !namesATest(cells[len(cells)-1]) {
				t.Errorf("%s: this row names no test: %s", c.page, cells[0])
			}
		}
		if rows < c.least {
			t.Errorf("%s: %q has only %d rows", c.page, c.title, rows)
		}
	}
}

// namesATest reports whether the last cell of a row says what shows that the row is
// true. That the test exists is checked elsewhere.
func namesATest(cell string) bool {
	return strings.Contains(cell, "go test ") || strings.Contains(cell, "scenario") || strings.Contains(cell, "`-run ") ||
		strings.Contains(cell, "the same") || strings.Contains(cell, "removed with the mechanism")
}

func TestMissingTestsAreSeen(t *testing.T) {
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	for text, want := range map[string]string{
		"scenario `fig5_sync`":                         "",
		"scenarios `fig5_sync`, `fig6_sync`":           "qosmutex/padme/testdata/fig6_sync",
		"lease scenarios `fences` and `fig5_sync`, so": "qosmutex/lease/testdata/fig5_sync",
	} {
		if got := strings.Join(missingScenarios(text, there), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for cell, want := range map[string]bool{"`go test ./broker` |": true, "scenario `x` |": true, "by hand |": false, "|": false} {
		if namesATest(cell) != want {
			t.Errorf("%q: not %v", cell, want)
		}
	}
}
