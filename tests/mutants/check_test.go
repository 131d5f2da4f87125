package mutants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds a build and a run: a mutant that makes a check run for ever has
// not been killed by it.
const patience = time.Minute

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

// command prepares a command of the module that ends when the test or our patience
// does.
func command(t *testing.T, dir, name string, args ...string) (*exec.Cmd, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(root(t), filepath.FromSlash(dir))
	cmd.WaitDelay = time.Second // for what it has started and left
	return cmd, cancel
}

// build compiles the tests of pkg into dir. That they compile is demanded of every
// mutant: one that does not is killed by nothing but the compiler.
func build(t *testing.T, dir, pkg string, flags ...string) (string, error) {
	t.Helper()
	binary := filepath.Join(dir, filepath.Base(pkg)+".test")
	// Building is nearly all that a mutant takes, and as many are built at a time as
	// there are processors: so each unoptimised, without symbols, by one thread that
	// does not collect garbage. That halves it.
	args := append([]string{"test", "-c", "-vet=off", "-gcflags=-N -l -dwarf=false", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd, cancel := command(t, ".", "go", append(args, pkg)...)
	defer cancel()
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// verdict is what came of a run.
type verdict struct {
	passed, failed []string // the tests that the pattern names in full
	log            string
}

// run runs the check.
func (c check) run(t *testing.T, binary string) verdict {
	t.Helper()
	parts := strings.Split(c.pattern, "/")
	args := []string{"-test.v", "-test.count=1", "-test.failfast", "-test.run=^" + strings.Join(parts, "$/^") + "$"}
	cmd, cancel := command(t, c.pkg, binary, append(args, strings.Fields(c.flags)...)...) // where its testdata is
	defer cancel()
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
		return fmt.Errorf("%s is not green without any mutant: %v\n%s", c, v.failed, v.log)
	case c.says.MatchString(v.log):
		return fmt.Errorf("%s says %q without any mutant:\n%s", c, c.says, v.log)
	}
	return nil
}

// killed reports whether the check has killed a mutant, for the reason that it is to.
func (c check) killed(v verdict) error {
	switch {
	case len(v.failed) > 0 && c.says.MatchString(v.log):
		return nil
	case len(v.failed) > 0:
		return fmt.Errorf("%s dies of something else than %q:\n%s", c, c.says, v.log)
	case len(v.passed) > 0:
		return fmt.Errorf("it lives: %s does not notice", c)
	}
	return fmt.Errorf("%s neither passes nor fails:\n%s", c, v.log) // a hang or a crash names no check
}

// sound is the sources as they are: it builds the tests of each package once, and
// runs each check once.
type sound struct {
	dir      string
	mu       sync.Mutex
	binaries map[string]func() (string, error) // by package
	verdicts map[string]func() (verdict, error)
}

func (s *sound) check(t *testing.T, c check) error {
	t.Helper()
	s.mu.Lock()
	binary := s.binaries[c.pkg]
	if binary == nil {
		binary = sync.OnceValues(func() (string, error) { return build(t, s.dir, c.pkg) })
		s.binaries[c.pkg] = binary
	}
	run := s.verdicts[c.String()]
	if run == nil {
		run = sync.OnceValues(func() (verdict, error) {
			path, err := binary()
			if err != nil {
				return verdict{}, err
			}
			return c.run(t, path), nil
		})
		s.verdicts[c.String()] = run
	}
	s.mu.Unlock()
	v, err := run()
	return errors.Join(err, c.green(v))
}
