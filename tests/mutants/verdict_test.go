package mutants

import (
	"regexp"
	"testing"
)

// TestWhatCounts says which runs make a check fit to kill, and which kill.
func TestWhatCounts(t *testing.T) {
	c := check{pkg: "./p", pattern: "TestX", says: regexp.MustCompile("both hold x")}
	for _, run := range []struct {
		what          string
		verdict       verdict
		green, killed bool
	}{
		{"it passes", verdict{passed: []string{"TestX"}}, true, false},
		{"it passes and says so all the same", verdict{passed: []string{"TestX"}, log: "A and B both hold x"}, false, false},
		{"it fails with what it is to say", verdict{failed: []string{"TestX"}, log: "A and B both hold x"}, false, true},
		{"it fails of something else", verdict{failed: []string{"TestX"}, log: "no such file"}, false, false},
		{"one fails and one passes", verdict{passed: []string{"TestX/a"}, failed: []string{"TestX/b"}, log: "A and B both hold x"}, false, true},
		{"it matches nothing, hangs or crashes", verdict{log: "A and B both hold x"}, false, false},
	} {
		if got := c.green(run.verdict) == nil; got != run.green {
			t.Errorf("%s: green is %v, want %v", run.what, got, run.green)
		}
		if got := c.killed(run.verdict) == nil; got != run.killed {
			t.Errorf("%s: killed is %v, want %v", run.what, got, run.killed)
		}
	}
}
