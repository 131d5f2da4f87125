package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walk is a line of a walk through the code: a function, and in which file it is. One that is
// further in is called by the one above it, by this name; one at the margin begins on a
// goroutine of its own, or is called through a variable.
var walk = regexp.MustCompile(`^([ └]*)((?:\w+\.)?\w+)\b.*\s(\S+\.go)$`)

// Walks in architecture.md are those of the code: each function is in its file, and calls those
// below it.
func TestWalksAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	walks := map[string]int{}
	title := ""
	var above []call // the line itself last
	for n, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "## "); ok {
			title = rest
		}
		m := walk.FindStringSubmatch(line)
		if m == nil {
			if !strings.HasPrefix(strings.TrimLeft(line, " "), "└") && !strings.HasPrefix(line, " ") {
				above = nil
			}
			continue
		}
		walks[title]++
		depth := len([]rune(m[1]))
		for len(above) > 0 && above[len(above)-1].depth >= depth {
			above = above[:len(above)-1]
		}
		f := declaredIn(t, m[3], m[2])
		if f == nil {
			t.Errorf("docs/architecture.md:%d: %s has no %s", n+1, m[3], m[2])
			continue
		}
		if _, name, found := strings.Cut(m[2], "."); len(above) > 0 {
			if !found {
				name = m[2]
			}
			if by := above[len(above)-1]; !mentions(by.body, name) {
				t.Errorf("docs/architecture.md:%d: %s does not call %s", n+1, by.name, name)
			}
		}
		above = append(above, call{depth, m[2], f.Body})
	}
	for _, title := range []string{"The path of a lock message", "The path of a sample", "The path of a client's request", "A holder dies", "A change of root"} {
		if walks[title] < 5 {
			t.Errorf("%q has a walk of %d lines", title, walks[title])
		}
	}
}

type call struct {
	depth int
	name  string
	body  *ast.BlockStmt
}

// declaredIn finds a function, or Type.method, in a file; nil: it is not there.
func declaredIn(t *testing.T, path, name string) *ast.FuncDecl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	receiver, method, isMethod := strings.Cut(name, ".")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		switch {
		case !ok || f.Body == nil || isMethod != (f.Recv != nil):
		case !isMethod && f.Name.Name == name:
			return f
		case isMethod && f.Name.Name == method && receiverOf(f) == receiver:
			return f
		}
	}
	return nil
}

func receiverOf(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

func mentions(body *ast.BlockStmt, name string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}
