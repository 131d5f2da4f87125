package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience bounds a run: a mutant that makes a check run for ever has not been killed
// by it. It is far more than any check takes on the busiest machine.
const patience = "5m"

// check is a test of this module, and what it must say of the mutant.
type check struct {
	pkg     string // as go test takes it from the root of the module
	pattern string // as -run takes it, each part from its beginning to its end
	flags   string // of the test binary
	says    *regexp.Regexp
}

func (c check) String() string { return strings.TrimSpace(c.pkg + " " + c.pattern + " " + c.flags) }

func parseCheck(line string) (check, error) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return check{}, fmt.Errorf("killed-by takes a package and a pattern; got %q", line)
	}
	return check{pkg: f[0], pattern: f[1], flags: strings.Join(f[2:], " ")}, nil
}

// command prepares a command of the module that ends when the test does.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = filepath.Join(root(t), filepath.FromSlash(dir))
	cmd.WaitDelay = time.Second // for what it has started and left
	return cmd
}

// verdict is what came of a run.
type verdict struct {
	passed, failed []string // the tests that the pattern names in full
	log            string
}

// run runs the check on the named mutant, or on the sources as they are.
func (c check) run(t *testing.T, binary, mutant string) verdict {
	t.Helper()
	parts := strings.Split(c.pattern, "/")
	args := []string{"-test.v", "-test.count=1", "-test.failfast", "-test.timeout=" + patience, "-test.run=^" + strings.Join(parts, "$/^") + "$"}
	cmd := command(t, c.pkg, binary, append(args, strings.Fields(c.flags)...)...) // where its testdata is
	// A share of a search may miss the mutant.
	cmd.Env = append(os.Environ(), selector+"="+mutant, "PADME_FULL=1")
	out, err := cmd.CombinedOutput()
	v := verdict{log: fmt.Sprintf("%v\n%s", err, out)}
	for line := range strings.Lines(string(out)) {
		result, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, _, _ := strings.Cut(rest, " ")
		if strings.Count(name, "/") < len(parts)-1 {
			continue
		}
		switch result {
		case "--- PASS":
			v.passed = append(v.passed, name)
		case "--- FAIL":
			v.failed = append(v.failed, name)
		}
	}
	return v
}

// green reports whether the check is fit to kill: it runs something, which passes,
// and does not say in any case what it is to say of the mutant.
func (c check) green(v verdict) error {
	switch {
	case len(v.passed) == 0 || len(v.failed) > 0:
		return fmt.Errorf("%s is not green without any mutant: %v\n%s", c, v.failed, v.brief())
	case c.says.MatchString(v.log):
		return fmt.Errorf("%s says %q without any mutant:\n%s", c, c.says, v.brief())
	}
	return nil
}

// killed reports whether the check has killed a mutant, for the reason that it is to.
func (c check) killed(v verdict) error {
	switch {
	case len(v.failed) > 0 && c.says.MatchString(v.log):
		return nil
	case len(v.failed) > 0:
		return fmt.Errorf("%s dies of something else than %q:\n%s", c, c.says, v.brief())
	case len(v.passed) > 0:
		return fmt.Errorf("it lives: %s does not notice", c)
	}
	return fmt.Errorf("%s neither passes nor fails:\n%s", c, v.brief()) // a hang or a crash names no check
}

// brief is the beginning and the end of the log, and all of it with -v.
func (v verdict) brief() string {
	const most = 12
	lines := strings.Split(strings.TrimSpace(v.log), "\n")
	if left := len(lines) - 2*most; left > 0 && !testing.Verbose() {
		lines = append(append(lines[:most:most], fmt.Sprintf("... %d lines more with -v", left)), lines[most+left:]...)
	}
	return strings.Join(lines, "\n")
}
