// Package mutants breaks the protocol on purpose, in one place at a time, and demands
// that named checks notice: so these checks are known to be able to fail, each for
// the reason that it is there for.
//
// Each file in testdata is one mutant, a slip that a programmer could make:
//
//	why: what it breaks, in a sentence
//	file: the source file, from the root of the module
//	killed-by: package, -run pattern, and flags of the test binary if it takes any
//	says: what the check prints of it, as a regular expression
//	-- old --
//	the text to be replaced, which must occur exactly once in the file
//	-- new --
//	what replaces it
//
// A mutant is killed when it compiles, the check that killed-by names is green on the
// sources as they are, and on the mutant turns red and prints what says says. Where
// there are several pairs of killed-by and says, each check must kill it. A mutant
// that does not compile, a check that matches nothing, hangs or turns red for another
// reason, and an old text that is no longer there are failures.
//
// The sources are not touched: a mutant is compiled with go test -overlay. It is found
// by its text, so it survives code that moves. One mutant alone, with what was said:
//
//	go test ./tests/mutants -v -run 'Killed/NAME$'
//
// To add one, write the file with a says that cannot match, run it as above, and read
// in the failure what the check really prints. Choose what shows the damage (two
// holders, a fence used twice, a request that is never served) rather than the first
// line that differs, and a scenario rather than a long run: of a whole second that a
// mutant costs, nearly everything should be its build.
package mutants

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMutantsAreKilled takes each mutant in turn. The table that it logs says what
// killed each, and how long that took, building included.
func TestMutantsAreKilled(t *testing.T) {
	dependOnSources(t)
	mutants := load(t)
	if len(mutants) < 20 {
		t.Fatalf("%d mutants are too few to say anything", len(mutants))
	}
	var kills kills
	t.Cleanup(func() { t.Log("\n" + kills.table()) })
	sound := sound{dir: t.TempDir(), binaries: map[string]func() (string, error){}, verdicts: map[string]func() (verdict, error){}}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			for _, c := range m.checks {
				if err := sound.check(t, c); err != nil {
					t.Fatal(err)
				}
			}
			m.kill(t)
			if !t.Failed() {
				kills.note(m, time.Since(start))
			}
		})
	}
}

// dependOnSources makes the result one of all the sources: go test remembers a green
// run by what the test reads, and does not see what it builds.
func dependOnSources(t *testing.T) {
	t.Helper()
	for _, room := range []string{"qosmutex", "tests"} {
		look := func(_ string, _ fs.DirEntry, err error) error { return err }
		if err := filepath.WalkDir(filepath.Join(root(t), room), look); err != nil {
			t.Fatal(err)
		}
	}
}

// kills is the table of what killed which mutant.
type kills struct {
	sync.Mutex
	rows []string
}

func (k *kills) note(m mutant, took time.Duration) {
	k.Lock()
	defer k.Unlock()
	by := make([]string, 0, len(m.checks))
	for _, c := range m.checks {
		by = append(by, c.String())
	}
	k.rows = append(k.rows, fmt.Sprintf("%-40s %5.1fs  %s", m.name, took.Seconds(), strings.Join(by, ", ")))
}

func (k *kills) table() string {
	k.Lock()
	defer k.Unlock()
	slices.Sort(k.rows)
	return fmt.Sprintf("%s\n%d mutants killed", strings.Join(k.rows, "\n"), len(k.rows))
}
