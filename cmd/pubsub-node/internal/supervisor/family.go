//go:build unix

package supervisor

import (
	"syscall"
	"time"
)

// family is a command and what it has started, as far as this process can tell.
type family struct {
	command int  // its process id and that of its group
	exited  bool // the command has ended, and that was told
	tell    func(report)
}

// reap takes note of children that ended or stopped, and returns whether there are others.
// Those that are not the command were adopted.
func (f *family) reap() (more bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid != f.command:
		case status.Stopped():
			f.tell(report{kind: stopped})
		default:
			f.exited = true
			f.tell(report{exited, exitCode(status)})
		}
	}
}

// exitCode is that of the shell.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

const (
	// look is how often the end looks for what is left: nobody tells when the last of a
	// family goes.
	look = 10 * time.Millisecond
	// insist bounds the waiting for what has got KILL: what belongs to another user does not
	// get it, and one that waits for a disk may take long.
	insist = time.Second
)

// end ends the family and returns when nothing of it is left, and whether KILL was needed.
func (f *family) end(hangUp bool, killAfter time.Duration) (killed bool) {
	f.signal(syscall.SIGTERM)
	if hangUp {
		f.signal(syscall.SIGHUP)
	}
	f.signal(syscall.SIGCONT) // a stopped process sees TERM only then
	for deadline := time.Now().Add(killAfter); f.left(); time.Sleep(look) {
		now := time.Now()
		if now.After(deadline.Add(insist)) {
			break
		}
		if now.After(deadline) { // again and again, as they may start others meanwhile
			f.signal(syscall.SIGKILL)
			killed = true
		}
	}
	return killed
}

// left reports whether something is left.
func (f *family) left() bool {
	return f.reap() || syscall.Kill(-f.command, 0) == nil
}

// signal sends sig to all of the family. Who is in the command's group gets it once, and no
// child that is born meanwhile escapes; the others are looked for.
func (f *family) signal(sig syscall.Signal) {
	_ = syscall.Kill(-f.command, sig)
	for _, pid := range descendants() {
		if group, err := syscall.Getpgid(pid); err == nil && group != f.command {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// adopted is the process group of a command whose supervisor has died, which left it to this
// process; 0: there is none, or it cannot be found.
func adopted() int {
	for _, pid := range descendants() {
		if group, err := syscall.Getpgid(pid); err == nil && group != syscall.Getpgrp() {
			return group
		}
	}
	return 0
}
