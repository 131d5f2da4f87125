package padme

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	padmePage    = "../../docs/padme.md"
	padmeFigures = "../../docs/img"
)

// scenes are comments in the page that no reader sees: a figure's name and what the
// applications do. One goes on from the one before, unless it begins with a tree.
var scene = regexp.MustCompile(`(?s)^(\S+)\n(.*?)-->\n(.*)`)

// row is one line of the table that follows: a number, what the machine did, and words.
var row = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\|")

// acts is what the table says of what an application does.
var acts = map[string]string{"request": "asks", "leave": "leaves"}

// enact does what a scene says and returns what happened, as the table has it: the
// numbers of grants and fences of messages are left out.
func enact(t *testing.T, w *world, script string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(script) {
		if err := w.do(strings.TrimSpace(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if f := strings.Fields(line); acts[f[0]] != "" {
			lines = append(lines, f[1]+" "+acts[f[0]])
		}
		for l := range strings.Lines(w.flush()) {
			l, _, _ = strings.Cut(strings.TrimSpace(l), " x grant")
			lines = append(lines, l)
		}
	}
	if w.failure != nil {
		t.Error(w.failure)
	}
	return lines
}

// The tables and figures of docs/padme.md are what the machine does. With -rewrite the
// figures are drawn again; the words of the tables are the writer's.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(padmePage)
	if err != nil {
		t.Fatal(err)
	}
	scenes := strings.Split(string(text), "<!-- scene ")[1:]
	if len(scenes) < 5 {
		t.Fatalf("the page has %d scenes", len(scenes))
	}
	w := newWorld()
	for _, part := range scenes {
		s := scene.FindStringSubmatch(part)
		if s == nil {
			t.Fatalf("this is no scene: %s", part)
		}
		if strings.HasPrefix(s[2], "tree ") {
			w = newWorld()
		}
		want := enact(t, w, s[2])
		var got []string
		for i, r := range row.FindAllStringSubmatch(s[3], -1) {
			if r[1] != fmt.Sprint(i+1) {
				t.Errorf("%s: row %d is numbered %s", s[1], i+1, r[1])
			}
			got = append(got, r[2])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page says\n\t%s\nand the machine did\n\t%s", s[1], strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		if !strings.Contains(s[3], "](img/"+s[1]+".svg)") {
			t.Errorf("%s: the page does not show the figure", s[1])
		}
		checkFigure(t, s[1], w.draw(want))
	}
}

func checkFigure(t *testing.T, name, drawn string) {
	t.Helper()
	path := filepath.Join(padmeFigures, name+".svg")
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.MkdirAll(padmeFigures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(drawn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != drawn {
		t.Errorf("%s is not what the machine did (%v): go test ./qosmutex/padme -run TestPage -rewrite", path, err)
	}
}
