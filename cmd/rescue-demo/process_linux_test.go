package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/tests/extent"
	"padme/tests/poll"
)

// program starts this program as a real process with three robots' processes, one
// frequency for each, and returns when they run.
func program(t *testing.T) (cmd *exec.Cmd, output func() string, robots []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, "--processes", "--robots", "3", "--frequencies", "3", "--duration", "1h")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "broker at ") {
		t.Fatalf("it begins with %q", lines.Text())
	}
	output = func() string {
		var b strings.Builder
		for lines.Scan() {
			b.WriteString(lines.Text() + "\n")
		}
		return b.String()
	}
	poll.Until(t, "its robots to start", func() bool {
		// Any of its threads may have started a process.
		robots = nil
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		for _, thread := range threads {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", cmd.Process.Pid, thread.Name()))
			robots = append(robots, strings.Fields(string(children))...)
		}
		return len(robots) == 3
	})
	return cmd, output, robots
}

// gone reports whether none of the processes runs any more.
func gone(pids []string) bool {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return false
		}
	}
	return true
}

func TestCtrlCEndsItWithASummary(t *testing.T) {
	extent.NotShort(t, "real time")
	t.Parallel()
	cmd, output, robots := program(t)
	time.Sleep(time.Second) // something to sum up; less would do too
	// A robot which dies while it transmits, as with a frequency each all do, costs
	// only itself.
	if err := exec.Command("kill", "-9", robots[0]).Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // longer than the session of a dead robot
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	text := output()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if !strings.Contains(text, "interrupted") || !strings.Contains(text, "overlaps: 0") || strings.Count(text, "failed") != 1 || !strings.Contains(text, "signal: killed") {
		t.Errorf("the summary is:\n%s", text)
	}
	if !gone(robots) {
		t.Error("robots outlive the program")
	}
}

func TestRobotsDieWithAKilledProgram(t *testing.T) {
	t.Parallel()
	cmd, _, robots := program(t)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the robots to die", func() bool { return gone(robots) })
}
