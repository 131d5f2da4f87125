package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The list of faults in docs/robustness.md is that of the table, row by row.
func TestFaultsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The fault simulation\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, list, _ := strings.Cut(section, "|---|---|\n")
	var want strings.Builder
	seen := map[string]bool{}
	for i := range faults {
		if seen[faults[i].name] {
			t.Errorf("two faults are named %q", faults[i].name)
		}
		seen[faults[i].name] = true
		fmt.Fprintf(&want, "| %s | %s |\n", faults[i].name, faults[i].means)
	}
	if len(faults) < 20 || strings.TrimSpace(list) != strings.TrimSpace(want.String()) {
		t.Errorf("docs/robustness.md is to list\n%s", want.String())
	}
}
