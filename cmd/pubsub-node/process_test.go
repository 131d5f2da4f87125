//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/register/local"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
)

// localGrace is when the root gives the lock of a silent holder to the next.
var localGrace = qosmutex.Local().Grace()

// startBroker runs a broker with a lock node in this process and returns its URL.
// Local timing is quick but a busy machine may cost a holder its lock: tests in
// which nothing is to be lost take LAN.
func startBroker(t *testing.T, timing qosmutex.Timing) (url string) {
	t.Helper()
	extent.NotShort(t, "real processes")
	ctx := t.Context()
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pubsub.Join(ctx, b.URL(), "root", pubsub.WithDialer(b.Dial), servesLocks(false))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server, err := qosmutex.NewServer(p, qosmutex.WithRegister(local.Memory()), qosmutex.WithTiming(timing), qosmutex.WithNodePriority(-1))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	ready := make(chan struct{})
	go func() { ended <- server.Run(ctx) }()
	go func() { ended <- gateway.Serve(ctx, server, gateway.WithReady(func() { close(ready) })) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		server.Close()
		leave(p)
		if err := closeWithin(b.Close); err != nil {
			t.Error(err)
		}
	})
	return b.URL()
}

// node is a pubsub-node process.
type node struct{ *process.Process }

// startNode runs pubsub-node in dir; it is killed at the end of the test if it
// still runs.
func startNode(t *testing.T, dir, url string, args ...string) *node {
	t.Helper()
	extent.NotShort(t, "real processes")
	return &node{process.Start(t, process.Options{Dir: dir, Env: []string{"PADME_BROKER=" + url, "LOOP=" + ignoringTERM}, Apart: true},
		append([]string{"pubsub-node"}, args...)...)}
}

// exit waits for the end of the process and returns its exit code.
func (n *node) exit(t *testing.T) int {
	t.Helper()
	return n.Exit(t, patienceInTests)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readPID waits for a file with the id of a process.
func readPID(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	poll.Until(t, "there is "+path, func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	return pid
}

func gone(pid int) func() bool {
	return func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }
}

// zombie: a process whose parent is gone stays one where nobody reaps orphans.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestCommandsUnderOneLockNeverOverlap(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	var nodes []*node
	for range 4 {
		nodes = append(nodes, startNode(t, dir, url, "lock", "crane", "--",
			"sh", "-c", `echo in $PADME_FENCE >>log; sleep 0.15; echo out $PADME_FENCE >>log`))
	}
	for _, n := range nodes {
		if code := n.exit(t); code != 0 {
			t.Errorf("exit code %d: %s", code, &n.Err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2*len(nodes) {
		t.Fatalf("%d lines:\n%s", len(lines), text)
	}
	var last uint64
	for i := 0; i < len(lines); i += 2 {
		fence, err := strconv.ParseUint(strings.TrimPrefix(lines[i], "in "), 10, 64)
		if err != nil || lines[i+1] != "out "+strconv.FormatUint(fence, 10) || fence <= last {
			t.Fatalf("overlap or fence out of order at line %d:\n%s", i+1, text)
		}
		last = fence
	}
}

func TestKilledHolderLetsTheNextInAfterTheTTL(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.Local())
	dir := t.TempDir()
	first := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", `echo $$ >pid; exec sleep 60`)
	command := readPID(t, filepath.Join(dir, "pid"))
	second := startNode(t, dir, url, "lock", "crane", "--", "touch", "in")
	time.Sleep(300 * time.Millisecond) // the second gets in line; it would have been inside by now
	if exists(filepath.Join(dir, "in")) {
		t.Fatal("the second is inside while the first holds the lock")
	}
	killed := time.Now()
	if err := first.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		poll.Until(t, "the command of the killed holder has ended", gone(command))
		if exists(filepath.Join(dir, "in")) {
			t.Error("the next is inside before the command of the killed holder has ended")
		}
	}
	if code := second.exit(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, &second.Err)
	}
	waited := time.Since(killed)
	t.Logf("the next was inside and done %v after the kill; the grace is %v", waited.Round(time.Millisecond), localGrace)
	if waited > localGrace+3*time.Second {
		t.Errorf("the next waited %v", waited)
	}
}

func TestLossStopsTheCommand(t *testing.T) {
	extent.Long(t, "five lost holds")
	for name, test := range map[string]struct {
		command string
		says    string
	}{
		"one that ends on TERM":     {`echo $$ >pid; trap 'touch term; exit 0' TERM; while :; do sleep 0.05; done`, "its exit code was 0"},
		"one that must be killed":   {`echo $$ >pid; trap '' TERM; while :; do sleep 0.05; done`, "killed"},
		"one that leaves processes": {`(trap '' TERM; while :; do sleep 0.05; done) & echo $! >pid; wait`, "killed"},
		"one that leaves its group": {`setsid sh -c "$LOOP" & wait`, "killed"},
		"one that leaves an orphan": {`(setsid sh -c "$LOOP" &); trap 'exit 0' TERM; while :; do sleep 0.05; done`, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.command, "setsid") && runtime.GOOS != "linux" {
				t.Skip("what leaves its process group can be found again on Linux only")
			}
			url := startBroker(t, qosmutex.Local())
			dir := t.TempDir()
			killAfter := "300ms"
			if test.says != "killed" {
				killAfter = "1m" // a busy machine takes its time
			}
			holder := startNode(t, dir, url, "lock", "crane", "--kill-after", killAfter, "--", "sh", "-c", test.command)
			command := readPID(t, filepath.Join(dir, "pid"))
			if err := holder.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			next := startNode(t, dir, url, "lock", "crane", "--", "true")
			if code := next.exit(t); code != 0 {
				t.Fatalf("the next did not get in: exit code %d: %s", code, &next.Err)
			}
			if gone(command)() {
				t.Fatal("the command ended by itself")
			}
			if err := holder.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if code := holder.exit(t); code != exitLost {
				t.Errorf("exit code %d, want %d", code, exitLost)
			}
			if got := holder.Err.String(); !strings.Contains(got, "lost") || !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q in it", got, test.says)
			}
			if !gone(command)() {
				t.Error("the command still runs")
			}
			if strings.Contains(test.command, "touch term") && !exists(filepath.Join(dir, "term")) {
				t.Error("the command got no TERM")
			}
		})
	}
}

// ignoringTERM are lines of sh that write the id of their process and run until KILL.
const ignoringTERM = `trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done`

// Nothing of a killed holder's command is left, whether it ignores TERM or has left the
// process group, when the lock is granted again or a little later.
func TestKilledHolderLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"a child that ignores TERM":   `sh -c "$LOOP" & wait`,
		"a command that ignores TERM": `eval "$LOOP"`,
		"a child with its own group":  `setsid sh -c "$LOOP" & wait`,
		"an orphan":                   `(setsid sh -c "$LOOP" &); exec sleep 600`,
		"one that is stopped":         `sh -c "$LOOP" & until [ -s pid ]; do sleep 0.01; done; kill -STOP $!; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(command, "setsid") && runtime.GOOS != "linux" {
				t.Skip("what leaves its process group can be found again on Linux only")
			}
			dir := t.TempDir()
			holder := startNode(t, dir, startBroker(t, qosmutex.LAN()), "lock", "crane", "--kill-after", "100ms", "--", "sh", "-c", command)
			survivor := readPID(t, filepath.Join(dir, "pid"))
			if err := holder.Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			poll.Until(t, "what the command started has ended", gone(survivor))
		})
	}
}

// The supervisor is the command's parent. When it is killed, the lock is released once
// nothing of the command is left.
func TestKilledSupervisorEndsTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := startNode(t, dir, startBroker(t, qosmutex.LAN()), "lock", "crane", "--kill-after", "100ms", "--",
		"sh", "-c", `sh -c "$LOOP" & until [ -s pid ]; do sleep 0.01; done; kill -9 $PPID; wait`)
	survivor := readPID(t, filepath.Join(dir, "pid"))
	if code := holder.exit(t); code != exitFailure || !strings.Contains(holder.Err.String(), "supervisor of the command was killed") {
		t.Errorf("exit code %d: %s", code, &holder.Err)
	}
	if !gone(survivor)() {
		t.Error("what the command started is still there")
	}
}

// A command gets the descriptors that were meant for it, under their numbers, and none of ours.
func TestCommandInheritsWhatWasMeantForIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("open descriptors are listed by /proc")
	}
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "third"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	under := []string{"pubsub-node", "--broker", startBroker(t, qosmutex.LAN()), "lock", "crane", "--"}
	list := []string{"sh", "-c", `echo third >&3; exec ls /proc/self/fd`}
	want, got := run(t, file, list...), run(t, file, append(under, list...)...)
	if got != want {
		t.Errorf("the command has these descriptors: %s, without a lock it has %s", strings.Fields(got), strings.Fields(want))
	}
	if text, err := os.ReadFile(file.Name()); err != nil || string(text) != "third\nthird\n" {
		t.Errorf("descriptor 3 got %q, %v", text, err)
	}
}

// run returns what a command says that finds file at descriptor 3.
func run(t *testing.T, file *os.File, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.ExtraFiles = []*os.File{file}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, text)
	}
	return string(text)
}

// startBrokerProcess runs `pubsub-node broker` and returns when it serves.
func startBrokerProcess(t *testing.T, dir, addr string, flags ...string) *node {
	t.Helper()
	ready := filepath.Join(dir, "ready")
	_ = os.Remove(ready)
	n := startNode(t, dir, "", append([]string{"broker", "--listen", addr, "--ready-file", ready}, flags...)...)
	poll.Until(t, "the broker serves", func() bool { return exists(ready) })
	return n
}
