package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"padme/qosmutex"
	"padme/tests/capture"
	"padme/tests/extent"
	"padme/tests/poll"
)

// shell is an interactive shell at a pseudo-terminal.
type shell struct {
	t      *testing.T
	master *os.File
	output capture.Text
}

func startShell(t *testing.T, url string) *shell {
	t.Helper()
	master, slave := openTerminal(t)
	cmd := exec.Command("sh", "-i")
	cmd.Env = append(os.Environ(), "PADME_BROKER="+url, "PS1=$ ", "ENV=")
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	s := &shell{t: t, master: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&s.output, master) // until the last process has closed its end
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = master.Close()
		<-done
	})
	return s
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	extent.NotShort(t, "real processes")
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// types sends keys and waits until the terminal shows what.
func (s *shell) types(keys, what string) {
	s.t.Helper()
	s.output.Reset()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	poll.Until(s.t, fmt.Sprintf("the terminal shows %q after %q", what, keys), func() bool { return s.output.Has(what) })
}

func TestCommandHasTheTerminal(t *testing.T) {
	t.Parallel()
	s := startShell(t, startBroker(t, qosmutex.LAN())) // time enough to be stopped for a moment
	s.types("pubsub-node lock crane -- sh -c 'echo i\"\"n; while read x; do echo got $x; done'\n", "in\r\n")
	s.types("one\n", "got one")
	s.types("\x1a", "Stopped")
	s.types("fg\n", "pubsub-node lock crane")
	s.types("two\n", "got two")
	s.types("\x03", "$ ")
	s.types("echo code=$?\n", "code=130")

	// One in the background is stopped when it reads, as any command is.
	s.types("pubsub-node lock crane -- sh -c 'read x; echo got $x' &\n", "$ ")
	poll.Until(t, "the job is stopped", func() bool {
		s.types("jobs; echo li\"\"sted\n", "listed")
		return s.output.Has("Stopped")
	})
	s.types("fg\n", "pubsub-node lock crane")
	s.types("three\n", "got three")
	s.types("echo code=$?\n", "code=0")
}

func TestShellHasTheTerminal(t *testing.T) {
	t.Parallel()
	s := startShell(t, startBroker(t, qosmutex.LAN()))
	s.types("SHELL=/bin/sh; export SHELL; pubsub-node lock crane --shell\n", "this shell holds lock crane/default: its end releases it")
	s.types("echo topic=$PADME_TOPIC\n", "topic=crane")
	s.types("sh -c 'echo runs$((1)); exec sleep 60'\n", "runs1") // before that it is the shell that is interrupted
	s.types("\x03", "^C")
	s.types("echo still=$PADME_RESOURCE\n", "still=default")
	s.types("exit 3\n", "$ ")
	s.types("echo code=$?\n", "code=3")
}
