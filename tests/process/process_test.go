//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/tests/poll"
)

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	p := Start(t, Options{Dir: dir, Env: []string{"SAYS=hello"}}, "sh", "-c", "pwd; echo $SAYS >&2; exit 3")
	if code := p.Exit(t, poll.Patience); code != 3 || p.Printed() != dir+"\nhello\n" {
		t.Errorf("exit code %d: %q", code, p.Printed())
	}
	p = Start(t, Options{Apart: true}, "sh", "-c", "echo out; echo err >&2")
	p.Await(t, poll.Patience)
	if p.Out.String() != "out\n" || p.Err.String() != "err\n" {
		t.Errorf("it printed %q and %q", &p.Out, &p.Err)
	}
	p = Start(t, Options{Name: "sleeper"}, "sleep", "1000")
	if _, err := p.Ended(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "sleeper has not ended") {
		t.Error(err)
	}
	p.Kill()
	p.Signal(syscall.SIGCONT) // too late
	p.Kill()                  // again
	if _, err := Run(Options{}, filepath.Join(dir, "none")); err == nil {
		t.Error("a program that is not there runs")
	}
}

// What a process of a group starts ends with it; what another one starts goes on.
func TestGroupsEndAsAWhole(t *testing.T) {
	for _, group := range []bool{true, false} {
		p := Start(t, Options{Group: group}, "sh", "-c", "sleep 1000 & echo $!; wait")
		var child int
		poll.Until(t, "it has a child", func() bool {
			text := p.Printed()
			child, _ = strconv.Atoi(strings.TrimSpace(text))
			return strings.HasSuffix(text, "\n")
		})
		p.Kill()
		if group {
			poll.Until(t, "the child has ended", func() bool { return ended(child) })
		} else if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Errorf("the child: %v", err)
		}
	}
}

// ended reports whether there is no such process, or only its exit code.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
