//go:build !unix

package supervisor

import (
	"os"
	"syscall"
)

// Supervisor stands for one where there are no process groups. The command is started by
// this process: the end of the lock reaches it, but not what it has started, and if this
// process is killed it goes on.
type Supervisor struct{}

// Start does nothing here.
func Start() *Supervisor { return &Supervisor{} }

// Close does nothing here.
func (*Supervisor) Close() {}

// Run runs the command until it exits or lost is closed, which kills it, and returns its exit
// code. The console gives Ctrl-C to the command as well; any other signal kills it.
func (*Supervisor) Run(c *Command, _ Terminal, signals <-chan syscall.Signal, lost <-chan struct{}) (code int, err error) {
	process, err := os.StartProcess(c.Path, c.Argv, &os.ProcAttr{
		Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 0, err
	}
	exited := make(chan int, 1)
	go func() {
		state, err := process.Wait()
		if err != nil {
			exited <- 1
			return
		}
		exited <- state.ExitCode()
	}()
	for {
		select {
		case code := <-exited:
			return code, err
		case sig := <-signals:
			if sig != syscall.SIGINT {
				_ = process.Kill()
			}
		case <-lost:
			lost, err = nil, ErrKilled
			_ = process.Kill()
		}
	}
}
