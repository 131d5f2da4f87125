package docs

import (
	"regexp"
	"strings"
	"testing"
)

// A measured figure in the prose of docs/choosing.md is bold. It stands in what one of
// the page's commands prints, which TestCommands compares with a run.
func TestFigures(t *testing.T) {
	text := read(t, "docs/choosing.md")
	printed := map[string]bool{}
	for _, s := range stepsOf(t, "docs/choosing.md") {
		if s.do == "prints" {
			for _, word := range regexp.MustCompile(`[\s,;:]+`).Split(s.block, -1) {
				printed[word] = true
			}
		}
	}
	figures := regexp.MustCompile(`\*\*(\d[^*]*)\*\*`).FindAllStringSubmatch(text, -1)
	if len(figures) < 5 {
		t.Fatalf("the page has %d measured figures", len(figures))
	}
	for _, f := range figures {
		if !printed[f[1]] {
			t.Errorf("no command of the page prints %s", f[1])
		}
	}
}

// What the page says of crashes is what docs/results/lectures.md has, which is made by a
// program and compared by its own test.
func TestCrashes(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/choosing.md"), "## Another algorithm")
	_, results, _ := strings.Cut(read(t, "docs/results/lectures.md"), "## What a crash does")
	rows := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, " of 8 |") {
			rows++
			if !strings.Contains(results, line) {
				t.Errorf("not in docs/results/lectures.md: %s", line)
			}
		}
	}
	if rows < 5 {
		t.Errorf("the page has %d rows", rows)
	}
	if !strings.Contains(read(t, "docs/results/padme.md"), "| level-forward-forward-forward | 360 | 0 | 0 | 360 |") {
		t.Error("the root under Level no longer keeps the token for itself")
	}
}
