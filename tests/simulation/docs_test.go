package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The lists in docs/robustness.md are those of the tables here, row by row.
func TestFaultsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The fault simulation\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var kinds, mixes strings.Builder
	seen := map[string]bool{}
	row := func(b *strings.Builder, name, means string) {
		if seen[name] {
			t.Errorf("two rows are named %q", name)
		}
		seen[name] = true
		fmt.Fprintf(b, "| %s | %s |\n", name, means)
	}
	for i := range faults {
		row(&kinds, faults[i].name, faults[i].means)
	}
	for i := range worlds {
		row(&mixes, "`"+worlds[i].name+"`", worlds[i].means)
	}
	for head, want := range map[string]*strings.Builder{"fault": &kinds, "world": &mixes} {
		_, list, _ := strings.Cut(section, "| "+head+" |")
		_, list, _ = strings.Cut(list, "|---|---|\n")
		list, _, _ = strings.Cut(list, "\n\n")
		if strings.TrimSpace(list) != strings.TrimSpace(want.String()) {
			t.Errorf("docs/robustness.md is to list\n%s", want)
		}
	}
}
