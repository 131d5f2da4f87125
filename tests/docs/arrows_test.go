package docs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// imports are the packages of the module that each of its packages imports, by path
// within the module.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "padme/...")
	list.Dir = root
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		ours := []string{}
		for _, w := range words[1:] {
			if rest, ok := strings.CutPrefix(w, "padme/"); ok {
				ours = append(ours, rest)
			}
		}
		all[strings.TrimPrefix(words[0], "padme/")] = ours
	}
	return all
}

// What draws charts decodes fonts and pictures, with packages in which vulnerabilities are found:
// the tool links none of it.
func TestToolLinksNothingThatDraws(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "padme/cmd/pubsub-node")
	list.Dir = root
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(text)) {
		pkg = strings.TrimSpace(pkg)
		if strings.HasPrefix(pkg, "gonum.org/") || strings.HasPrefix(pkg, "golang.org/x/image") || pkg == "padme/qosmutex/sim/chart" {
			t.Errorf("pubsub-node links %s", pkg)
		}
	}
}

// within reports whether a package is that of a folder or below it.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// mayImport reports whether the last cell of a row of the table allows a package. Its
// names are those of folders, also of folders below qosmutex.
func mayImport(cell, pkg string) bool {
	return slices.ContainsFunc(codeInLine.FindAllString(cell, -1), func(span string) bool {
		name := strings.Trim(span, "`")
		return pkg == "qosmutex" && name == "qosmutex" || name != "qosmutex" && (within(pkg, name) || within(pkg, "qosmutex/"+name))
	})
}

// What docs/architecture.md says that a package may import is all that it imports, and
// every package below qosmutex has a row.
func TestArrows(t *testing.T) {
	all := imports(t)
	_, table, _ := strings.Cut(read(t, "docs/architecture.md"), "| folder | what it is | may import |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) == 3 && strings.Contains(cells[0], "`") {
			rows[strings.Trim(cells[0], " `/")] = cells[2]
		}
	}
	if len(rows) < 15 {
		t.Fatalf("the table has only %d rows", len(rows))
	}
	for pkg, ours := range all {
		folder := pkg // the row that the package is in
		for rows[folder] == "" && strings.Contains(folder, "/") {
			folder = folder[:strings.LastIndex(folder, "/")]
		}
		cell, ok := rows[folder]
		switch {
		case !ok, folder == "qosmutex" && pkg != "qosmutex":
			t.Errorf("%s is not in the table", pkg)
			continue
		case strings.Contains(cell, "all of them"), strings.Contains(cell, "an application may"):
			continue
		}
		for _, other := range ours {
			if !(within(other, folder) && folder != "qosmutex") && !mayImport(cell, other) {
				t.Errorf("%s imports %s, but the table says: %s", pkg, other, cell)
			}
		}
	}
}
