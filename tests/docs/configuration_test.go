package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
)

const configuration = "docs/configuration.md"

// section returns the rows of the tables between a heading and the next one, without
// the tables' heads.
func section(t *testing.T, title string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(read(t, configuration), "\n## "+title)
	if !found {
		t.Fatalf("%s has no section %s", configuration, title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// The page has the flags that there are, with their defaults.
func TestConfigurationOfPrograms(t *testing.T) {
	node := programs["pubsub-node"]
	for title, v := range map[string]*verb{
		"Every command": node, "The broker": node.below["broker"], "The gateway": node.below["serve"], "A lock": node.below["lock"], "Settings of a lock": node.below["lock"].below["create"],
	} {
		flags := map[string]bool{}
		for name, own := range v.own {
			flags[name] = own && name != "--help"
		}
		for _, row := range section(t, title) {
			name, value := strings.Trim(row[0], "`"), strings.Trim(row[1], "`")
			if !flags[name] {
				t.Errorf("%s: %s is twice in the table, or no flag of it", title, name)
			}
			flags[name] = false
			said := regexp.MustCompile(`\(default "?([^") ]+)"?\)`).FindStringSubmatch(v.flags[name])
			if said == nil && value != "" || said != nil && said[1] != value {
				t.Errorf("%s: the default of %s is not %q: %s", title, name, value, v.flags[name])
			}
			for _, variable := range regexp.MustCompile(`\[PADME_\w+\]`).FindAllString(v.flags[name], -1) {
				if !slices.Contains(row, "`"+strings.Trim(variable, "[]")+"`") {
					t.Errorf("%s: the table does not have %s of %s", title, variable, name)
				}
			}
		}
		for name, missing := range flags {
			if missing {
				t.Errorf("%s: the table has no %s", title, name)
			}
		}
	}
}

// The page has the presets.
func TestConfigurationOfTiming(t *testing.T) {
	presets := []qosmutex.Timing{qosmutex.Local(), qosmutex.LAN(), qosmutex.WAN()}
	of := map[string]func(t qosmutex.Timing) time.Duration{
		"TTL":       func(t qosmutex.Timing) time.Duration { return t.TTL },
		"Heartbeat": func(t qosmutex.Timing) time.Duration { return t.Heartbeat },
		"JoinWait":  func(t qosmutex.Timing) time.Duration { return t.JoinWait },
		"MoveAfter": func(t qosmutex.Timing) time.Duration { return t.MoveAfter },
		"Hop":       func(t qosmutex.Timing) time.Duration { return t.Hop },
	}
	rows := section(t, "Timing")
	if len(rows) != len(of)+1 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		name := strings.Trim(row[0], "`")
		for i, preset := range presets {
			if name == "Drift" {
				if row[i+1] != "0.01" || preset.Drift != 0.01 {
					t.Errorf("Drift: %s, %v", row[i+1], preset.Drift)
				}
				continue
			}
			if of[name] == nil {
				t.Fatalf("there is no %s", name)
			}
			d, err := time.ParseDuration(row[i+1])
			if err != nil || of[name](preset) != d {
				t.Errorf("%s: the page says %s, the preset %v", name, row[i+1], of[name](preset))
			}
		}
	}
}

// exported calls f with every exported function of a package that is no method.
func exported(t *testing.T, dir string, f func(fn *ast.FuncDecl)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || files == nil {
		t.Fatal(dir, err, fs.ErrNotExist)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() {
				f(fn)
			}
		}
	}
}

// results are the names of the types that a function returns.
func results(fn *ast.FuncDecl) (names []string) {
	if fn.Type.Results == nil {
		return nil
	}
	for _, r := range fn.Type.Results.List {
		ast.Inspect(r.Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
			return true
		})
	}
	return names
}

// The page has the options that there are.
func TestConfigurationInGo(t *testing.T) {
	there := map[string]bool{}
	for _, dir := range []string{"pubsub", "qosmutex", "qosmutex/gateway"} {
		exported(t, dir, func(fn *ast.FuncDecl) {
			if r := results(fn); len(r) == 1 && strings.HasSuffix(r[0], "Option") {
				there[fn.Name.Name] = true
			}
		})
	}
	said := map[string]bool{}
	for _, row := range section(t, "Options in Go") {
		for _, name := range codeInLine.FindAllString(row[0], -1) {
			said[strings.Trim(name, "`")] = true
		}
	}
	if !maps.Equal(there, said) {
		t.Errorf("options that there are: %v\non the page: %v", slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(said)))
	}
}
