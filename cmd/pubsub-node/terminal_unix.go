//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"padme/cmd/pubsub-node/internal/supervisor"
)

// terminal is the terminal on standard input. The command gets it while it runs,
// as a shell gives it to its jobs: a process group in the background could not
// read from it.
type terminal struct{ fd int }

// standardTerminal returns nil when standard input is not our terminal.
func standardTerminal() supervisor.Terminal {
	t := &terminal{int(os.Stdin.Fd())}
	if t.owner() == 0 {
		return nil
	}
	return t
}

// owner is the process group in the foreground, 0 if there is none.
func (t *terminal) owner() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// ours reports whether we are in the foreground.
func (t *terminal) ours() bool { return t.owner() == unix.Getpgrp() }

// Foreground implements [supervisor.Terminal].
func (t *terminal) Foreground() int {
	if t.ours() {
		return t.fd
	}
	return -1
}

func (t *terminal) giveTo(group int) {
	// Whoever changes the foreground from the background is stopped, unless it
	// ignores this signal.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	signal.Reset(syscall.SIGTTOU)
}

// Reclaim takes the terminal back if group has it.
func (t *terminal) Reclaim(group int) {
	if t.owner() == group {
		t.giveTo(unix.Getpgrp())
	}
}

// stopTakes bounds the waiting for being continued: where no shell could continue
// us the system ignores the stop.
const stopTakes = 200 * time.Millisecond

// Suspend stops our own group because the command's was stopped, and continues
// the command when the shell continues us: in the foreground if that is where we
// are then.
func (t *terminal) Suspend(group int) {
	t.Reclaim(group)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select { // the stop may reach another thread first, and this one run on
	case <-continued:
	case <-time.After(stopTakes):
	}
	if t.ours() {
		t.giveTo(group)
	}
	_ = syscall.Kill(-group, syscall.SIGCONT)
}
