package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The list of worlds in docs/robustness.md is that of the table here, row by row.
func TestWorldsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range worlds {
		fmt.Fprintf(&want, "| `%s` | %s |\n", worlds[i].name, worlds[i].means)
	}
	if !strings.Contains(string(text), "| world | what it is |\n|---|---|\n"+want.String()+"\n") {
		t.Errorf("docs/robustness.md is to list\n%s", &want)
	}
}

// Coverage counts the faults of each kind by its name.
func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for i := range faults {
		if f := faults[i]; f.name == "" || f.means == "" || seen[f.name] {
			t.Errorf("fault %q: %q", f.name, f.means)
		}
		seen[faults[i].name] = true
	}
}
