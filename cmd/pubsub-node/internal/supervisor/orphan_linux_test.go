package supervisor

import (
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
