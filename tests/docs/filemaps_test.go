package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Packages of many files say in doc.go what is where, and name each file.
func TestFilesAreNamedInTheirMaps(t *testing.T) {
	for _, pkg := range []string{"broker", "qosmutex/padme"} {
		dir := filepath.Join(root, pkg)
		text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, files, found := strings.Cut(string(text), "\n// Where to look:\n")
		if !found {
			t.Fatalf("%s/doc.go has no map of its files", pkg)
		}
		named := map[string]bool{}
		for _, word := range strings.Fields(files) {
			if strings.HasSuffix(word, ".go") {
				named[word] = true
			}
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name := filepath.Base(path)
			platform := strings.HasSuffix(name, "_unix.go") || strings.HasSuffix(name, "_windows.go")
			if !strings.HasSuffix(name, "_test.go") && !platform && name != "doc.go" && !named[name] {
				t.Errorf("%s/doc.go does not say what is in %s", pkg, name)
			}
			delete(named, name)
		}
		for name := range named {
			t.Errorf("%s/doc.go names %s, which is not there", pkg, name)
		}
	}
}
