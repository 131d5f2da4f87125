//go:build unix

package supervisor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/tests/extent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string) *Command {
	return &Command{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ(), KillAfter: 100 * time.Millisecond}
}

func start(t *testing.T) *Supervisor {
	t.Helper()
	s := Start()
	t.Cleanup(s.Close)
	return s
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 77": 77, "kill -KILL $$": 128 + int(syscall.SIGKILL)} {
		if code, err := start(t).Run(shell(script), nil, nil, nil); code != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", script, code, err, want)
		}
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	directory := t.TempDir()
	script := filepath.Join(directory, "script")
	if err := os.WriteFile(script, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, arg string
		want      error
	}{
		{filepath.Join(directory, "missing"), "", syscall.ENOENT},
		{directory, "", syscall.EACCES},
		{script, "", syscall.ENOEXEC},
		{"/bin/sh", "a\x00b", syscall.EINVAL},
	} {
		c := &Command{Path: test.path, Argv: []string{"sh", test.arg}}
		if _, err := start(t).Run(c, nil, nil, nil); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.path, err, test.want)
		}
	}
}

// The command line and the environment arrive as they were, whatever they contain.
func TestOrder(t *testing.T) {
	for _, o := range []*order{
		{Command{"/bin/sh", []string{"sh"}, nil, false, 0}, -1},
		{Command{"/bin/a b", []string{"", "a\nb", "\xff", ""}, []string{"A=\n", "", "B=" + strings.Repeat("x", 1<<20)}, true, 49 * 24 * time.Hour}, 300},
	} {
		if o.Env == nil {
			o.Env = []string{}
		}
		got, err := readOrder(bytes.NewReader(o.encode()))
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := readOrder(bytes.NewReader(nil)); err == nil {
		t.Error("nothing was read as an order")
	}
}

func TestDecimal(t *testing.T) {
	for _, n := range []int{0, 7, 10, 4194304} {
		if got, ok := parseDecimal(decimal(n)); got != n || !ok {
			t.Errorf("%d, %v, want %d", got, ok, n)
		}
	}
	for _, s := range []string{"", "-1", "1x", "self", "99999999999999999999"} {
		if n, ok := parseDecimal(s); ok {
			t.Errorf("%q is %d", s, n)
		}
	}
}

func TestSignals(t *testing.T) {
	extent.NotShort(t, "real processes")
	signals := make(chan syscall.Signal)
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		for !exists(ready) {
			time.Sleep(time.Millisecond)
		}
		signals <- syscall.SIGUSR1
	}()
	code, err := start(t).Run(shell("trap 'exit 5' USR1; touch "+ready+"; while :; do sleep 0.01; done"), nil, signals, nil)
	if code != 5 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

// A process that asks its parent to end gets what it asked for, as without a supervisor.
func TestSignalsToTheSupervisor(t *testing.T) {
	code, err := start(t).Run(shell("trap 'exit 6' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"), nil, nil, nil)
	if code != 6 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

func TestLost(t *testing.T) {
	extent.NotShort(t, "real processes")
	for script, want := range map[string]error{
		"trap 'exit 3' TERM; touch $READY; while :; do sleep 0.01; done": nil,
		"trap '' TERM; touch $READY; while :; do sleep 0.01; done":       ErrKilled,
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		c := shell(script)
		c.Env = append(c.Env, "READY="+ready)
		if want == nil {
			c.KillAfter = time.Minute
		}
		lost := make(chan struct{})
		go func() {
			defer close(lost)
			for !exists(ready) {
				time.Sleep(time.Millisecond)
			}
		}()
		code, err := start(t).Run(c, nil, nil, lost)
		if !errors.Is(err, want) || want == nil && code != 3 {
			t.Errorf("%q: %d, %v, want %v", script, code, err, want)
		}
	}
}

// A supervisor that was killed before it had a command is not waited for.
func TestKilledWhileItWaits(t *testing.T) {
	s := start(t)
	<-s.begun
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(shell("exit 0"), nil, nil, nil); !errors.Is(err, ErrDied) {
		t.Errorf("%v, want %v", err, ErrDied)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// What a process has begun to start as it began itself is for the first who wants one.
func TestBegunEarly(t *testing.T) {
	extent.NotShort(t, "real processes")
	early = begin()
	first := early
	if got := start(t); got != first {
		t.Error("the first got another one")
	}
	if start(t) == first {
		t.Error("the second got the same")
	}
}

func TestRunsCommand(t *testing.T) {
	for line, want := range map[string]bool{
		"pubsub-node lock crane -- true":                   true,
		"pubsub-node --broker mqtt://b lock crane -n -- a": true,
		"pubsub-node pub t -- lock":                        false,
		"pubsub-node lock ls":                              false,
		"pubsub-node":                                      false,
	} {
		if got := runsCommand(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
