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
// The sources are not touched, and all mutants are compiled at once: go test -overlay
// puts in the place of a file one in which each function has the bodies that mutants give
// it in front of its own, and a variable of the environment says which is to run (what
// the literature calls mutant schemata). So a mutant changes the bodies of functions and
// nothing else. It is found by its text, so it survives code that moves. One mutant
// alone, with all that was said:
//
//	go test ./tests/mutants -v -run 'Killed/NAME$'
//
// To add one, write the file with a says that cannot match, run it as above, and read
// in the failure what the check really prints. Choose what shows the damage (two
// holders, a fence used twice, a request that is never served) rather than the first
// line that differs, and a scenario rather than a long run. A check decides alike on
// every machine, however busy it is: it runs in virtual time, and what it draws is
// drawn from a seed.
package mutants

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/tests/extent"
)

// share is how many mutants there are for each that go test runs. The others can be made,
// and compile; make full runs them, so does PADME_MUTANTS=all, and -run those that it names.
// The gate runs half of them by turns.
var share = extent.Of(6, 1)

// TestMutantsAreKilled takes each mutant in turn. With -v a table says what killed each,
// and how long that took; without, only those that live are printed, briefly.
func TestMutantsAreKilled(t *testing.T) {
	extent.NotShort(t, "it builds and runs every check")
	dependOnSources(t)
	mutants := load(t)
	if len(mutants) < 20 {
		t.Fatalf("%d mutants are too few to say anything", len(mutants))
	}
	var kills kills
	if testing.Verbose() {
		t.Cleanup(func() { t.Log("\n" + kills.table()) })
	}
	p := program{verdicts: map[string]func() verdict{}}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			m.place(t)
			p.mutants = append(p.mutants, m)
			t.Parallel() // goes on when all those that -run names are in the program
			if len(p.mutants) == len(mutants) && i%share != 0 && os.Getenv("PADME_MUTANTS") != "all" && !extent.Turn(m.name, 2) {
				return // it can still be made
			}
			if p.err != nil {
				t.SkipNow() // red already
			}
			start := time.Now()
			m.kill(t, &p)
			if !t.Failed() {
				kills.note(m, time.Since(start))
			}
		})
	}
	p.build(t)
}

// dependOnSources makes the result one of all the sources: go test remembers a green
// run by what the test reads, and does not see what it builds.
func dependOnSources(t *testing.T) {
	t.Helper()
	for _, room := range []string{"pubsub", "qosmutex", "tests"} {
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
