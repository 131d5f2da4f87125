package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// selector is the variable of the environment that names the mutant which a test
// binary is to be.
const selector = "PADME_MUTANT"

// selection is added to each package that has mutants.
const selection = `package %s

import "os"

var theMutant = os.Getenv(%q)
`

// program is the sources with all mutants in them, one test binary for each package of
// checks: a run is a moment where a build is seconds.
type program struct {
	mutants  []mutant
	binaries string // the directory
	err      error  // of the build
	mu       sync.Mutex
	verdicts map[string]func() verdict // on the sources as they are, by check
}

// build compiles what the checks of the mutants need. That it compiles is demanded of
// every mutant: one that does not is killed by nothing but the compiler, whose complaint
// is about a line of the mutant's file.
func (p *program) build(t *testing.T) {
	t.Helper()
	if len(p.mutants) == 0 {
		return
	}
	p.binaries = t.TempDir()
	args := []string{"test", "-c", "-vet=off", "-gcflags=-dwarf=false", "-ldflags=-s -w", "-overlay=" + p.overlay(t), "-o", p.binaries + string(filepath.Separator)}
	if out, err := command(t, ".", "go", append(args, p.packages()...)...).CombinedOutput(); err != nil {
		p.err = fmt.Errorf("one of them does not compile: %w", err)
		t.Errorf("%v\n%s", p.err, out)
	}
}

// packages are those of the checks.
func (p *program) packages() []string {
	all := map[string]bool{}
	for _, m := range p.mutants {
		for _, c := range m.checks {
			all[c.pkg] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (p *program) binary(c check) string {
	return filepath.Join(p.binaries, filepath.Base(c.pkg)+".test")
}

// overlay writes the sources with the mutants in them, and says which files of the
// module they replace.
func (p *program) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(file, text string) {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		write(t, path, []byte(text))
		replace[filepath.Join(root(t), filepath.FromSlash(file))] = path
	}
	edits := map[string][]edit{}
	for _, m := range p.mutants {
		edits[m.file] = append(edits[m.file], m.edits...)
		put(filepath.ToSlash(filepath.Join(filepath.Dir(m.file), "the_mutant.go")), fmt.Sprintf(selection, m.pkg, selector))
	}
	for file, edits := range edits {
		put(file, weave(file, read(t, file), edits))
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	write(t, path, overlay)
	return path
}

// sound reports whether the check is green on the sources as they are.
func (p *program) sound(t *testing.T, c check) error {
	t.Helper()
	p.mu.Lock()
	run := p.verdicts[c.String()]
	if run == nil {
		run = sync.OnceValue(func() verdict { return c.run(t, p.binary(c), "") })
		p.verdicts[c.String()] = run
	}
	p.mu.Unlock()
	return c.green(run())
}

// edit is the body of a function as a mutant has it.
type edit struct {
	mutant string
	at     int // behind the opening brace of the body, as it is
	body   string
	last   string // what keeps it from going on with the body as it is
}

// weave puts the bodies of the mutants in front of those of the file. The compiler and
// panics name the lines of either.
func weave(file, source string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	done := 0
	for _, e := range edits {
		b.WriteString(source[done:e.at])
		fmt.Fprintf(&b, "\nif theMutant == %q {\n//line %s:1\n%s\n%s\n}\n//line %s:%d\n",
			e.mutant, e.mutant, e.body, e.last, filepath.Base(file), 1+strings.Count(source[:e.at], "\n"))
		done = e.at
	}
	b.WriteString(source[done:])
	return b.String()
}

// changes finds the bodies that differ in the mutated file.
func changes(name, source, mutated string) (pkg string, edits []edit, err error) {
	var files [2]*ast.File
	for i, text := range []string{source, mutated} {
		if files[i], err = parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution); err != nil {
			return "", nil, fmt.Errorf("it does not compile: %w", err)
		}
	}
	is, was := files[1].Decls, files[0].Decls
	if len(is) != len(was) {
		return "", nil, errOutside
	}
	// A file starts at position 1.
	for i, d := range was {
		head, body := split(d, source)
		newHead, newBody := split(is[i], mutated)
		if head != newHead {
			return "", nil, errOutside
		}
		if body == newBody {
			continue
		}
		f := is[i].(*ast.FuncDecl)
		e := edit{mutant: name, at: int(d.(*ast.FuncDecl).Body.Lbrace), body: newBody, last: "return"}
		if f.Type.Results != nil {
			e.last = `panic("this body does not end with a return")`
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if _, is := n.(*ast.LabeledStmt); is {
				err = errLabel
			}
			return true
		})
		edits = append(edits, e)
	}
	return files[0].Name.Name, edits, err
}

var (
	errOutside = fmt.Errorf("it changes more than bodies of functions; make the same slip inside of one")
	errLabel   = fmt.Errorf("a function with a label cannot have mutants, as the label would be there twice")
)

// split takes a declaration apart into what is outside of a function's body and that.
func split(d ast.Decl, text string) (head, body string) {
	if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
		return text[d.Pos()-1 : f.Body.Lbrace], text[f.Body.Lbrace : f.Body.Rbrace-1]
	}
	return text[d.Pos()-1 : d.End()-1], ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// root is the root of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
