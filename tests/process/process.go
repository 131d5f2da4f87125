// Package process runs real processes in tests: programs of this module, and those that
// must be installed.
package process

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/tests/capture"
)

// Options say how a process runs.
type Options struct {
	Name  string   // in messages; "": its command
	Dir   string   // where it runs; "": where the test does
	Env   []string // in addition to that of the test
	Group bool     // it has a process group of its own, which Kill ends as a whole
	Apart bool     // its standard error is kept apart, in Err
	Last  int      // if not 0, only so many bytes of what it prints are kept, the last ones
}

// Process is one that a test started. It is killed when the test process dies, where the
// system can do that (Linux).
type Process struct {
	*exec.Cmd
	Name string
	Out  capture.Text  // what it printed
	Err  capture.Text  // what it printed on its standard error, if that is kept apart
	Done chan struct{} // closed when it is gone

	group bool
}

// Start runs a program until the end of the test, at the latest. Of a test that fails, what
// it printed is logged.
func Start(t testing.TB, options Options, argv ...string) *Process {
	t.Helper()
	p, err := Run(options, argv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.Name, p.Printed())
		}
	})
	return p
}

// Run is Start of a process that the caller kills, or that ends by itself.
func Run(options Options, argv ...string) (*Process, error) {
	if options.Name == "" {
		options.Name = strings.Join(argv, " ")
	}
	p := &Process{Cmd: exec.Command(argv[0], argv[1:]...), Name: options.Name, Done: make(chan struct{}), group: options.Group}
	p.Out.Last, p.Err.Last = options.Last, options.Last
	p.Dir = options.Dir
	p.Env = append(p.Environ(), options.Env...)
	p.Stdout, p.Stderr = &p.Out, &p.Out
	if options.Apart {
		p.Stderr = &p.Err
	}
	p.SysProcAttr = attributes(options.Group)
	p.WaitDelay = time.Second // what it started may keep the pipes open
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", options.Name, err)
	}
	go func() {
		_ = p.Wait()
		close(p.Done)
	}()
	return p, nil
}

// Printed is all that it printed so far.
func (p *Process) Printed() string { return p.Out.String() + p.Err.String() }

// Kill ends the process, and its group if it has one of its own, as kill -9 does. It
// returns when the process is gone.
func (p *Process) Kill() {
	if p.group {
		killGroup(p.Process.Pid)
	} else {
		_ = p.Process.Kill()
	}
	<-p.Done
}

// Signal sends a signal. A process that is gone does not get it.
func (p *Process) Signal(sig syscall.Signal) { _ = p.Process.Signal(sig) }
