//go:build linux

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is one that a test runs, stops and kills.
type process struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer // to be read after its end
	ended  chan struct{}
}

// start runs a command in the network namespace, if one is given. It is killed at
// the end of the test at the latest.
func start(t *testing.T, namespace string, env []string, command ...string) *process {
	t.Helper()
	if namespace != "" {
		command = append([]string{"ip", "netns", "exec", namespace}, command...)
	}
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	// What is stopped does not see that its standard input ends.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// startSelf runs the test binary as a worker or a broker.
func startSelf(t *testing.T, namespace, env string, job any) *process {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, namespace, []string{env + "=" + string(text)}, os.Args[0])
}

// kill ends the process by SIGKILL, and returns when it is gone. It may be called
// again.
func (p *process) kill() {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	close(p.ended)
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (p *process) order(t *testing.T, order string) {
	t.Helper()
	if _, err := io.WriteString(p.orders, order+"\n"); err != nil {
		t.Fatal(err)
	}
}
