package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// step is what a page tells to do or to expect.
type step struct {
	page  string
	line  int
	do    string   // run, start, prints, awaits, interrupt, shows or not
	where []string // terminals, or the file
	block string
}

func (s *step) String() string { return fmt.Sprintf("%s:%d: %s %s", s.page, s.line, s.do, s.where) }

var (
	directive = regexp.MustCompile(`^<!-- (run|start|prints|awaits|interrupt|shows|not) ?(.*) -->$`)
	fence     = regexp.MustCompile("^```(\\w*)")
)

// steps reads a page. A shell block that says nothing about itself is an error: each
// command is run, or the page says why not.
func steps(page, text string) ([]step, error) {
	var all []step
	var next *step
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if m := directive.FindStringSubmatch(lines[i]); m != nil {
			all = append(all, step{page: page, line: i + 1, do: m[1], where: strings.Fields(m[2])})
			next = &all[len(all)-1]
			switch next.do {
			case "interrupt":
				next = nil
			case "awaits":
				next.where, next.block = next.where[:1], strings.Join(next.where[1:], " ")
				next = nil
			}
			continue
		}
		m := fence.FindStringSubmatch(lines[i])
		if m == nil {
			if next != nil {
				return nil, fmt.Errorf("%s:%d: %q is about no block", page, i, lines[i-1])
			}
			continue
		}
		begin := i
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s:%d: this block does not end", page, begin+1)
		}
		switch {
		case next != nil:
			next.block = strings.Join(lines[begin+1:i], "\n") + "\n"
		case m[1] != "go" && m[1] != "json" && m[1] != "mermaid" && m[1] != "text":
			return nil, fmt.Errorf("%s:%d: nobody runs this block", page, begin+1)
		}
		next = nil
	}
	return all, nil
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func stepsOf(t *testing.T, page string) []step {
	t.Helper()
	all, err := steps(page, read(t, page))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("%s tells nothing to do", page)
	}
	return all
}

// matches says whether the output has the lines in their order, others between them.
func matches(output, want string) bool {
	lines := strings.Split(strings.ReplaceAll(output, "\r", ""), "\n")
	for w := range strings.Lines(want) {
		if w = strings.TrimRight(w, " \n"); w == "" {
			continue
		}
		parts := strings.Split(w, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		line := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		for len(lines) > 0 && !line.MatchString(strings.TrimRight(lines[0], " ")) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return false
		}
		lines = lines[1:]
	}
	return true
}

func TestABlockThatNobodyRunsIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\n```sh\nrm -r x\n```\n":                        "p:3: nobody runs this block",
		"```\nrm -r x\n```\n":                               "p:1: nobody runs this block",
		"<!-- run 1 -->\n\n```sh\nrm -r x\n```\n":           `p:1: "<!-- run 1 -->" is about no block`,
		"<!-- run 1 -->\n```sh\nrm -r x\n":                  "p:2: this block does not end",
		"<!-- not run: it is this -->\n```sh\ngo test\n```": "<nil>",
	} {
		if _, err := steps("p", text); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		output, want string
		ok           bool
	}{
		{"a\r\nb\r\nc\r\n", "a\nc\n", true},
		{"a\nb\n", "b\na\n", false},
		{"fence 17 of 3\n", "fence … of 3\n", true},
		{"the fence 17\n", "fence …\n", false},
		{"a\n", "a\na\n", false},
	} {
		if matches(c.output, c.want) != c.ok {
			t.Errorf("%q against %q: not %v", c.output, c.want, c.ok)
		}
	}
}
