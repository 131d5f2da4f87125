package mutants

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// mutant is one deliberate fault.
type mutant struct {
	name     string
	why      string
	file     string // relative to the root of the module
	old, new string
	checks   []check
	pkg      string // the file's
	edits    []edit
}

// load reads testdata.
func load(t *testing.T) []mutant {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	mutants := make([]mutant, 0, len(paths))
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parse(a)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(path), ".txtar")
		mutants = append(mutants, m)
	}
	return mutants
}

func parse(a *txtar.Archive) (m mutant, err error) {
	for line := range strings.Lines(string(a.Comment)) {
		if err = m.set(strings.Cut(strings.TrimSpace(line), ": ")); err != nil {
			return m, err
		}
	}
	for _, f := range a.Files {
		switch f.Name {
		case "old":
			m.old = string(f.Data)
		case "new":
			m.new = string(f.Data)
		default:
			return m, fmt.Errorf("unknown section %q", f.Name)
		}
	}
	if m.why == "" || m.file == "" || m.old == "" || m.old == m.new || len(m.checks) == 0 {
		return m, fmt.Errorf("it takes why, file, killed-by, and two different texts")
	}
	for _, c := range m.checks {
		if c.says == nil {
			return m, fmt.Errorf("%s: it takes what the check says", c)
		}
	}
	return m, nil
}

func (m *mutant) set(key, value string, _ bool) error {
	switch key {
	case "why":
		m.why = value
	case "file":
		m.file = value
	case "killed-by":
		c, err := parseCheck(value)
		m.checks = append(m.checks, c)
		return err
	case "says":
		if len(m.checks) == 0 {
			return fmt.Errorf("says comes after killed-by")
		}
		says, err := regexp.Compile(value)
		m.checks[len(m.checks)-1].says = says
		return err
	default:
		return fmt.Errorf("unknown line %q", key)
	}
	return nil
}

// place finds out what the mutant changes in its file.
func (m *mutant) place(t *testing.T) {
	t.Helper()
	source := read(t, m.file)
	if n := strings.Count(source, m.old); n != 1 {
		t.Fatalf("the old text occurs %d times in %s: the code has changed: renew the mutant", n, m.file)
	}
	var err error
	if m.pkg, m.edits, err = changes(m.name, source, strings.Replace(source, m.old, m.new, 1)); err != nil {
		t.Fatal(err)
	}
}

// kill runs the mutant's checks, each of which must be sound and kill it.
func (m mutant) kill(t *testing.T, p *program) {
	t.Helper()
	for _, c := range m.checks {
		if err := p.sound(t, c); err != nil {
			t.Error(err)
			continue
		}
		v := c.run(t, p.binary(c), m.name)
		if err := c.killed(v); err != nil {
			t.Errorf("%s\n%v", m.why, err)
			continue
		}
		t.Logf("%s: %s", c, strings.TrimSpace(c.says.FindString(v.log)))
	}
}
