//go:build unix

package main

import (
	"os"
	"syscall"
)

func startChild(argv0 string, argv, env []string) (*child, error) {
	tty := standardTerminal()
	process, err := os.StartProcess(argv0, argv, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   groupAttributes(tty),
	})
	if err != nil {
		return nil, err
	}
	c := &child{process: process, pid: process.Pid, exited: make(chan int, 1)}
	go c.wait(tty)
	return c, nil
}

// wait reports the exit code. Meanwhile it hands a stop of the command (Ctrl-Z)
// on to ourselves: the shell waits for us and would not notice otherwise. A
// process that is stopped answers no heartbeats, so the lock is lost after the
// TTL, and the command gets TERM when it is continued.
func (c *child) wait(tty *terminal) {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			c.exited <- exitFailure // somebody else reaped it: its code is lost
			return
		case status.Stopped():
			if tty != nil {
				tty.suspend(c.pid)
			}
		default:
			if tty != nil {
				tty.reclaim(c.pid)
			}
			_ = c.process.Release()
			if status.Signaled() {
				c.exited <- exitSignal + int(status.Signal())
			} else {
				c.exited <- status.ExitStatus()
			}
			return
		}
	}
}

// signal sends sig to the command and all that it started in its group.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// resume lets a stopped group see the signals that wait for it.
func (c *child) resume() { c.signal(syscall.SIGCONT) }

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) groupAlive() bool { return syscall.Kill(-c.pid, 0) == nil }
