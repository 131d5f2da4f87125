//go:build linux

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"padme/tests/capture"
)

// patience bounds every waiting for processes, on a machine that is busy.
const patience = 2 * time.Minute

// desk is where a page is tried: a network namespace and the terminals in it.
type desk struct {
	*testing.T
	namespace string
	env       []string
	terminals map[string]*terminal
	scripts   string
	blocks    int
}

var desks atomic.Int64

func newDesk(t *testing.T, env []string) *desk {
	t.Helper()
	_, err := exec.LookPath("ip")
	if os.Geteuid() != 0 {
		err = errors.New("not root")
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("a network namespace cannot be made: %v: run as root with iproute2", err)
	}
	if err != nil {
		t.Skipf("a network namespace cannot be made: %v", err)
	}
	d := &desk{
		T: t, namespace: fmt.Sprintf("padmedocs%d-%d", os.Getpid(), desks.Add(1)), env: env,
		terminals: map[string]*terminal{}, scripts: t.TempDir(),
	}
	t.Cleanup(d.clear)
	for _, args := range [][]string{{"netns", "add", d.namespace}, {"-n", d.namespace, "link", "set", "lo", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	return d
}

// clear ends whatever runs in the namespace, and the namespace.
func (d *desk) clear() {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		pids, err := exec.Command("ip", "netns", "pids", d.namespace).Output()
		if err != nil || len(bytes.TrimSpace(pids)) == 0 {
			break
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			_ = exec.Command("kill", "-9", pid).Run()
		}
	}
	for name, term := range d.terminals {
		_ = term.shell.Wait()
		_ = term.keys.Close()
		<-term.closed
		if d.Failed() {
			d.Logf("terminal %s showed:\n%s", name, term.shown())
		}
	}
	_ = exec.Command("ip", "netns", "del", d.namespace).Run()
}

// terminal is a shell at a pseudo-terminal.
type terminal struct {
	shell  *exec.Cmd
	keys   *os.File
	closed chan struct{}
	end    string // what the shell prints when the last block has ended; "" before the first

	output capture.Text
	begin  int // of what was printed since the last block began
}

func (d *desk) terminal(name string) *terminal {
	d.Helper()
	if t := d.terminals[name]; t != nil {
		return t
	}
	master, slave, err := openTerminal()
	if err != nil {
		d.Fatal(err)
	}
	t := &terminal{keys: master, closed: make(chan struct{})}
	t.shell = exec.Command("ip", "netns", "exec", d.namespace, "bash", "--norc", "--noprofile", "--noediting", "-i")
	t.shell.Dir, t.shell.Env = root, append(os.Environ(), append(d.env, "PS1=", "PS2=", "HISTFILE=", "TMPDIR="+d.scripts)...)
	t.shell.Stdin, t.shell.Stdout, t.shell.Stderr = slave, slave, slave
	t.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := t.shell.Start(); err != nil {
		d.Fatal(err)
	}
	_ = slave.Close()
	d.terminals[name] = t
	go func() {
		defer close(t.closed)
		_, _ = io.Copy(&t.output, master) // until the last process has closed its end
	}()
	return t
}

// openTerminal makes a pseudo-terminal that does not echo, and on which an interrupt
// does not throw away what is typed ahead.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("/dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	settings, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err == nil {
		settings.Lflag = settings.Lflag&^unix.ECHO | unix.NOFLSH
		err = unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, settings)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	return master, slave, err
}

func (t *terminal) shown() string { return t.output.String() }

// since is what was printed since the last block began.
func (t *terminal) since() string { return t.shown()[t.begin:] }

// failed is the line about a command of the last block that failed.
func (t *terminal) failed() string {
	_, line, found := strings.Cut(t.since(), "[failed: ")
	if line, _, _ = strings.Cut(line, "]"); !found {
		return ""
	}
	return line
}

// typed gives a block to a terminal, which must be free.
func (d *desk) typed(s *step, name string) *terminal {
	d.Helper()
	t := d.terminal(name)
	d.ended(s, t)
	d.blocks++
	script := filepath.Join(d.scripts, fmt.Sprintf("block%d", d.blocks))
	if err := os.WriteFile(script, []byte(s.block), 0o600); err != nil {
		d.Fatal(err)
	}
	t.begin = len(t.shown())
	t.end = fmt.Sprintf("[block %d has ended]", d.blocks)
	// The quotes keep the shell's words about a job from looking like its end.
	keys := fmt.Sprintf("trap 'echo \"[failed: $?: $BASH_COMMAND]\"' ERR; source %s </dev/null\necho; echo '[block' %d has ended]\n", script, d.blocks)
	if _, err := t.keys.WriteString(keys); err != nil {
		d.Fatal(err)
	}
	return t
}

// ended waits until the last block of a terminal has ended.
func (d *desk) ended(s *step, t *terminal) {
	d.Helper()
	if t.end != "" {
		d.until(s, t, "the block before has ended", func() bool { return strings.Contains(t.since(), t.end) })
	}
}

func (d *desk) until(s *step, t *terminal, what string, done func() bool) {
	d.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("%v: waited in vain until %s. The terminal shows:\n%s", s, what, t.since())
		}
	}
}
