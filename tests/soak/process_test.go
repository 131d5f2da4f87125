//go:build linux

package soak

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one that a run started, in a group of its own with what it starts.
type process struct {
	cmd    *exec.Cmd
	out    output
	done   chan struct{} // closed when it is gone
	exited int           // its exit code, after done
}

// output keeps what a process said, the end of it if it says much.
type output struct {
	mu   sync.Mutex
	text []byte
}

const mostSaid = 64 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if extra := len(o.text) - mostSaid; extra > 0 {
		o.text = append(o.text[:0], o.text[extra:]...)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(bytes.Clone(o.text))
}

// begin starts a program.
func begin(env []string, argv ...string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		p.exited = p.cmd.ProcessState.ExitCode()
	}()
	return p, nil
}

// kill ends it without a warning; what it started under a lock gets TERM from the
// kernel. It returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// ended waits for the end, within the limit, and returns the exit code.
func (p *process) ended(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.exited, nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%v has not ended after %v: %s", p.cmd.Args[1:], limit, p.out.String())
	}
}

// look samples a process; metrics, if any, is where it tells its goroutines.
func look(pid int, metrics string) (sample, error) {
	s := sample{rss: -1, goroutines: -1, fds: -1}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				return s, err
			}
			s.rss = n << 10
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.fds = len(files)
	if metrics != "" {
		s.goroutines, err = goroutines(metrics)
	}
	return s, err
}

// scraper asks on a new connection each time, so that it keeps nothing open at
// what it watches.
var scraper = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func goroutines(url string) (int, error) {
	answer, err := scraper.Get(url)
	if err != nil {
		return -1, err
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return -1, err
	}
	for line := range strings.Lines(body.String()) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return -1, fmt.Errorf("no go_goroutines at %s", url)
}
