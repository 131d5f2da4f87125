package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// errKilled says that the command was still there after --kill-after.
var errKilled = errors.New("it did not end on TERM and was killed")

// child is a command in a process group of its own, with our standard streams.
type child struct {
	process *os.Process
	pid     int      // of the command and its group; Release takes it from process
	exited  chan int // the exit code, 128+signal when a signal ended it
}

// findCommand looks for the program before the lock is taken: nobody should wait
// for a command which cannot run.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission):
		return "", &exitError{exitCannotRun, fmt.Errorf("cannot run %q: it is not executable", name)}
	default:
		return "", &exitError{exitNotFound, fmt.Errorf("command not found: %q", name)}
	}
}

// runUnder runs the command until it exits or hold ends, and returns its exit
// code. Signals go to the command; one that ended ctx before keeps it from
// starting. When hold ends first the command's process group gets TERM, and KILL
// after killAfter; nothing of it is left when runUnder returns.
func runUnder(ctx, hold context.Context, sigs *signals, argv0 string, argv, env []string, killAfter time.Duration) (int, error) {
	// Linux sends the parent-death signal when the *thread* that started the child
	// ends, so this goroutine keeps its thread to itself meanwhile.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pending := make(chan syscall.Signal, 16)
	sigs.handTo(func(sig syscall.Signal) {
		select {
		case pending <- sig:
		default: // sixteen wait already
		}
	})
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	c, err := startChild(argv0, argv, env)
	if err != nil {
		return 0, &exitError{exitCannotRun, fmt.Errorf("cannot run %q: %w", argv[0], err)}
	}
	for {
		select {
		case code := <-c.exited:
			return code, nil
		case sig := <-pending:
			c.signal(sig)
		case <-hold.Done():
			return c.end(killAfter)
		}
	}
}

// end stops the whole group: TERM now, KILL after killAfter.
func (c *child) end(killAfter time.Duration) (code int, err error) {
	c.signal(syscall.SIGTERM)
	c.resume()
	deadline := time.NewTimer(killAfter)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond) // nobody tells when the last of a group goes
	defer poll.Stop()
	exited := c.exited
	for exited != nil || c.groupAlive() {
		select {
		case code = <-exited:
			exited = nil
		case <-poll.C:
		case <-deadline.C:
			c.kill()
			if exited != nil {
				code = <-exited
			}
			c.awaitGroup(poll.C)
			return code, errKilled
		}
	}
	return code, nil
}

// awaitGroup waits until killed processes are gone. It does not insist: one that
// nobody reaps stays in the group for ever.
func (c *child) awaitGroup(poll <-chan time.Time) {
	for range 100 {
		if !c.groupAlive() {
			return
		}
		<-poll
	}
}
