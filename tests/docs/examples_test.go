package docs

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Every entry point has an example that runs, which `go doc` shows beside it. An entry
// point is an exported function that is no method and no option: where one begins.
func TestEveryEntryPointHasAnExample(t *testing.T) {
	entries := 0
	for _, dir := range []string{"broker", "pubsub", "qosmutex", "qosmutex/gateway", "qosmutex/jsonlock", "qosmutex/fence", "qosmutex/papers"} {
		examples := testsOf(t, dir)
		exported(t, dir, func(fn *ast.FuncDecl) {
			if r := results(fn); len(r) == 1 && strings.HasSuffix(r[0], "Option") {
				return
			}
			entries++
			if !slices.Contains(examples, "Example"+fn.Name.Name) {
				t.Errorf("%s.%s has no example", dir, fn.Name.Name)
			}
		})
	}
	if entries < 20 {
		t.Errorf("only %d entry points", entries)
	}
}
