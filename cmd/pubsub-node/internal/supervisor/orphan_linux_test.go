package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// If holder and supervisor die at once, the kernel ends the command on Linux.
func TestCommandDiesWithItsSupervisor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s := start(t)
	<-s.begun
	if err := s.send(shell("trap '' TERM HUP; echo $$ >"+file+"; kill -9 $PPID; while :; do sleep 0.01; done"), -1); err != nil {
		t.Fatal(err)
	}
	var pid int
	for pid == 0 {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	var status syscall.WaitStatus // it is our child now
	for {
		got, err := syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.ECHILD { // not yet
			time.Sleep(time.Millisecond)
			continue
		}
		if err == syscall.EINTR {
			continue
		}
		if got != pid || err != nil || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Errorf("%d, %v, %v", got, err, status)
		}
		return
	}
}

// What a command has started ends also if the supervisor dies before it has told that it has
// started the command.
func TestSupervisorDiesBeforeItTells(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s := start(t)
	<-s.begun
	r := &run{s: s, command: shell("sh -c 'echo $$ >" + file + ".new; mv " + file + ".new " + file + "; while :; do sleep 0.01; done' & until [ -s " + file + " ]; do sleep 0.01; done; kill -9 $PPID; wait")}
	r.command.KillAfter = 100 * time.Millisecond
	if err := r.order(); err != nil {
		t.Fatal(err)
	}
	for !exists(file) {
		time.Sleep(time.Millisecond)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.whenGone(); !errors.Is(err, ErrDied) {
		t.Error(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("what the command started is still there")
	}
}
