package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippets is the code of a page: what stands in its fenced blocks and in its lines,
// without the escapes of tables.
func snippets(text string) []string {
	var all []string
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced:
			all = append(all, strings.TrimRight(line, "\n"))
		default:
			for _, span := range codeInLine.FindAllString(line, -1) {
				all = append(all, strings.ReplaceAll(strings.Trim(span, "`"), `\|`, "|"))
			}
		}
	}
	return all
}

// everySnippet calls f with the code of every page.
func everySnippet(t *testing.T, f func(page, code string)) {
	t.Helper()
	for _, page := range pages(t) {
		for _, code := range snippets(read(t, page)) {
			f(page, code)
		}
	}
}

var (
	program = regexp.MustCompile(`(?:^|[\s(/"])(pubsub-node|rescue-demo)((?: +\S+)*)`)
	target  = regexp.MustCompile(`(?:^|[\s(])make ([a-z-]+)`)
	goTest  = regexp.MustCompile(`\bgo test ([^#]*)`)
	bare    = regexp.MustCompile(`^--[a-z][a-z-]+`)
)

// Every command line of our programs names commands and flags that there are.
func TestCommandLines(t *testing.T) {
	known := map[string]bool{}
	var collect func(v *verb)
	collect = func(v *verb) {
		for flag := range v.flags {
			known[flag] = true
		}
		for _, below := range v.below {
			collect(below)
		}
	}
	for _, v := range programs {
		collect(v)
	}
	seen := 0
	everySnippet(t, func(page, code string) {
		if strings.Contains(code, "go test") || strings.Contains(code, "go install") {
			return
		}
		if flag := bare.FindString(code); flag != "" && !known[flag] {
			t.Errorf("%s: `%s`: no program of ours has the flag %s", page, code, flag)
		}
		words := strings.Fields(code)
		if v := programs["pubsub-node"].below; len(words) > 1 && v[words[0]] != nil && strings.Contains(code, " --") {
			code = "pubsub-node " + code
		}
		for _, m := range program.FindAllStringSubmatch(code, -1) {
			seen++
			if wrong := programs[m[1]].checkCommand(strings.Fields(m[2])); wrong != "" {
				t.Errorf("%s: `%s`: %s", page, code, wrong)
			}
		}
	})
	if seen < 40 {
		t.Errorf("only %d command lines", seen)
	}
}

// Every make target that a page names is in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	seen := 0
	everySnippet(t, func(page, code string) {
		for _, m := range target.FindAllStringSubmatch(code, -1) {
			seen++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
				t.Errorf("%s: `%s`: there is no such target", page, code)
			}
		}
	})
	if seen < 5 {
		t.Errorf("only %d targets", seen)
	}
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)

// testsOf are the names of a folder's tests, examples and fuzz targets.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

var (
	runFlag     = regexp.MustCompile(`-run[ =](?:'([^']*)'|"([^"]*)"|(\S+))`)
	packageName = regexp.MustCompile(`\s(\./\S+)`)
)

// checkGoTest returns what is wrong with the arguments of a go test command. Words in
// capitals stand for a name.
func checkGoTest(arguments string, tests func(dir string) []string) string {
	run := runFlag.FindStringSubmatch(arguments)
	for _, m := range packageName.FindAllStringSubmatch(" "+arguments, -1) {
		dir := strings.TrimRight(m[1], "),;:")
		if strings.HasSuffix(dir, "...") {
			continue
		}
		names := tests(dir)
		if names == nil {
			return dir + " has no tests"
		}
		if run == nil || strings.Contains(arguments, "-bench") {
			continue
		}
		if wrong := checkRun(dir, run[1]+run[2]+run[3], names); wrong != "" {
			return wrong
		}
	}
	return ""
}

// checkRun returns what is wrong with the pattern of -run: each of its alternatives must
// match a test.
func checkRun(dir, pattern string, names []string) string {
	for alternative := range strings.SplitSeq(pattern, "|") {
		name, _, _ := strings.Cut(alternative, "/")
		name = strings.TrimRight(name, "),.;:")
		if regexp.MustCompile(`^[A-Z]+$`).MatchString(name) {
			continue
		}
		pattern, err := regexp.Compile(name)
		if err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(names, pattern.MatchString) {
			return fmt.Sprintf("no test of %s matches %s", dir, name)
		}
	}
	return ""
}

// allTests are those of all packages.
func allTests(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			names = append(names, testsOf(t, strings.TrimPrefix(path, root))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Every go test command names a package that there is, and a test in it.
func TestTestsAreThere(t *testing.T) {
	seen, all := 0, allTests(t)
	everySnippet(t, func(page, code string) {
		if run := runFlag.FindStringSubmatch(code); run != nil && strings.HasPrefix(code, "-run") { // of a table whose head names the package
			if wrong := checkRun("any package", run[1]+run[2]+run[3], all); wrong != "" {
				t.Errorf("%s: `%s`: %s", page, code, wrong)
			}
		}
		for _, m := range goTest.FindAllStringSubmatch(code, -1) {
			seen++
			if wrong := checkGoTest(m[1], func(dir string) []string { return testsOf(t, dir) }); wrong != "" {
				t.Errorf("%s: `%s`: %s", page, code, wrong)
			}
		}
	})
	if seen < 50 {
		t.Errorf("only %d commands", seen)
	}
}

func TestWrongTestCommandsAreSeen(t *testing.T) {
	tests := func(dir string) []string {
		if dir != "./broker" {
			return nil
		}
		return []string{"TestKill", "TestUsers"}
	}
	for arguments, ok := range map[string]bool{
		"./broker": true, "./broker -run Kill": true, "./broker -run 'Kill|Users'": true, "./broker -run Kill/sub": true,
		"./...": true, "./broker -run NAME": true,
		"./broker -run Kiss": false, "./broker -run 'Nothing|Users'": false, "./broken": false, "-v ./broken -run Kill": false,
	} {
		if wrong := checkGoTest(arguments, tests); (wrong == "") != ok {
			t.Errorf("%s: %q", arguments, wrong)
		}
	}
}
