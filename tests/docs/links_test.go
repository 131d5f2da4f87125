package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages are README, SECURITY, those of the clients' packages, and everything below docs.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := fs.Glob(os.DirFS(root), "clients/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, "README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

// withoutCode blanks fenced blocks and code in the line, in which nothing is a link.
func withoutCode(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		isFence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if isFence {
			fenced = !fenced
		}
		if fenced || isFence {
			line = "\n"
		}
		b.WriteString(codeInLine.ReplaceAllString(line, "`…`"))
	}
	return b.String()
}

var (
	codeInLine = regexp.MustCompile("`[^`\n]+`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchors are the names that GitHub gives to a page's headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	fenced := false
	var plain strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if !fenced {
			plain.WriteString(line)
		}
	}
	for _, m := range heading.FindAllStringSubmatch(plain.String(), -1) {
		title := link.ReplaceAllString(strings.ToLower(m[1]), "]")
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return r
			}
			return -1
		}, title)
		unique := name
		for i := 1; names[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", name, i)
		}
		names[unique] = true
	}
	return names
}

// checkLinks returns what is wrong with the links of a page to files of the repository.
func checkLinks(page, text string, readFile func(string) ([]byte, error)) (wrong []string) {
	for _, m := range link.FindAllStringSubmatch(withoutCode(text), -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", page, err))
			continue
		}
		if u.Scheme != "" {
			continue
		}
		target, there := page, []byte(text)
		if u.Path != "" {
			target = path.Join(path.Dir(page), u.Path)
			if there, err = readFile(target); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s: %s is not there", page, m[1], target))
				continue
			}
		}
		if u.Fragment != "" && !anchors(string(there))[u.Fragment] {
			wrong = append(wrong, fmt.Sprintf("%s: %s: %s has no heading of that name", page, m[1], target))
		}
	}
	return wrong
}

// Every link to a file or a heading of the repository leads there. Links to other
// sites are not followed.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		text := read(t, page)
		links += len(link.FindAllString(text, -1))
		for _, wrong := range checkLinks(page, text, func(name string) ([]byte, error) {
			name = filepath.Join(root, name)
			if info, err := os.Stat(name); err != nil || info.IsDir() {
				return nil, err
			}
			return os.ReadFile(name)
		}) {
			t.Error(wrong)
		}
	}
	t.Logf("%d links", links)
}

func TestWrongLinksAreSeen(t *testing.T) {
	files := map[string]string{"docs/b.md": "# B `c` & d\n```\n# no\n```\n## B\n## B\n"}
	for text, ok := range map[string]bool{
		"[b](b.md)": true, "[b](../docs/b.md#b-c--d)": true, "[b](b.md#b-1)": true, "# Me\n[me](#me)": true,
		"[b](c.md)": false, "[b](b.md#no)": false, "[b](b.md#b-2)": false, "[me](#me)": false, "![p](p.png)": false,
		"`[b](c.md)`": true, "[x](https://example.com/x)": true,
	} {
		wrong := checkLinks("docs/a.md", text, func(name string) ([]byte, error) {
			if f, found := files[name]; found {
				return []byte(f), nil
			}
			return nil, os.ErrNotExist
		})
		if (len(wrong) == 0) != ok {
			t.Errorf("%s: %q", text, wrong)
		}
	}
}
