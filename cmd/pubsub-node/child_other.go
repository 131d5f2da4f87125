//go:build !unix

package main

import (
	"os"
	"syscall"
)

// startChild runs the command without a process group: where there are none, the
// end of the lock reaches the command itself but not what it started.
func startChild(argv0 string, argv, env []string) (*child, error) {
	process, err := os.StartProcess(argv0, argv, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return nil, err
	}
	c := &child{process: process, pid: process.Pid, exited: make(chan int, 1)}
	go func() {
		state, err := process.Wait()
		if err != nil {
			c.exited <- exitFailure
			return
		}
		c.exited <- state.ExitCode()
	}()
	return c, nil
}

// signal leaves Ctrl-C to the console, which gives it to the command as well; any
// other signal ends the command.
func (c *child) signal(sig syscall.Signal) {
	if sig != syscall.SIGINT {
		c.kill()
	}
}

func (c *child) resume() {}

func (c *child) kill() { _ = c.process.Kill() }

func (c *child) groupAlive() bool { return false }
