//go:build unix

package supervisor

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// patience is how much longer than it should a supervisor may take to end what it runs.
const patience = 10 * time.Second

// Supervisor is a supervisor that runs, as its holder sees it.
type Supervisor struct {
	begun   chan struct{} // closed when it was started or could not be, which is err
	err     error
	pid     int
	socket  *os.File
	reading chan struct{} // closed when nothing reads the socket any more, nil before
}

// Start begins to start a supervisor, which waits for a command, and returns at once. Run
// says if it could not be started. The caller must Close it. From then on this process
// adopts, where the system can do that, what loses its parent below it.
func Start() *Supervisor {
	s := early
	if early = nil; s == nil {
		s = begin()
	}
	return s
}

// early is the supervisor that this process has begun to start as it began itself, for the
// first Start; nil: none. To get ready takes a program most of the time in which the other
// gets its lock, so they do it together. If nothing calls Start, it ends with this process.
var early *Supervisor

// runsCommand guesses from a command line whether it will want a supervisor.
func runsCommand(args []string) bool {
	lock := false
	for _, arg := range args {
		if arg == "--" {
			return lock
		}
		lock = lock || arg == "lock"
	}
	return false
}

func begin() *Supervisor {
	s := &Supervisor{begun: make(chan struct{})}
	go func() {
		defer close(s.begun)
		s.err = s.start()
	}()
	return s
}

// starting keeps a supervisor from inheriting the socket of another one, which the holder sees
// closed only when all who have it have ended.
var starting sync.Mutex

func (s *Supervisor) start() error {
	starting.Lock()
	defer starting.Unlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	// The supervisor inherits its end under the number that it has here, so that descriptors
	// which are meant for the command keep theirs.
	defer syscall.Close(pair[1])
	syscall.CloseOnExec(pair[0])
	if s.pid, err = startSelf(decimal(pair[1])); err != nil {
		_ = syscall.Close(pair[0])
		return err
	}
	_ = syscall.SetNonblock(pair[0], true) // a deadline can end a Read
	s.socket = os.NewFile(uintptr(pair[0]), "supervisor")
	adoptOrphans()
	return nil
}

// startSelf starts this program as a supervisor, in a process group of its own: what is
// sent to the group of the holder, KILL by a shell's job control for one, does not reach it.
func startSelf(socket string) (pid int, err error) {
	path, err := ownProgram()
	if err != nil {
		return 0, err
	}
	pid, err = syscall.ForkExec(path, []string{name, socket}, &syscall.ProcAttr{
		Files: standardStreams, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	return pid, os.NewSyscallError("start "+path, err)
}

// Run runs the command until it exits or lost is closed, and returns its exit code. An error
// that is neither ErrKilled nor ErrDied is why it could not be started. Signals go to
// the process group of the command. When lost is closed first the command, and all that it
// has started as the package says, gets TERM, and KILL later, which is ErrKilled. After
// lost and after ErrDied nothing of it is left. It must be called once at most; tty may be
// nil.
func (s *Supervisor) Run(c *Command, tty Terminal, signals <-chan syscall.Signal, lost <-chan struct{}) (code int, err error) {
	if <-s.begun; s.err != nil {
		return 0, s.err
	}
	r := &run{s: s, command: c, tty: tty}
	if err := r.order(); err != nil {
		return 0, err
	}
	defer r.reclaim()
	reports := s.readReports()
	for {
		select {
		case sig := <-signals:
			_, _ = s.socket.Write([]byte{byte(sig)})
		case <-lost:
			lost = nil
			r.ending = true
			s.hangUp(c.KillAfter + patience)
		case rep, ok := <-reports:
			if !ok {
				return r.whenGone()
			}
			if r.take(rep) {
				return r.code, r.err
			}
		}
	}
}

// run is what is known of a command that runs.
type run struct {
	s       *Supervisor
	command *Command
	tty     Terminal

	group  int // 0 until it is known
	ending bool
	exited bool
	code   int
	err    error
}

func (r *run) order() error {
	foreground := -1
	if r.tty != nil {
		foreground = r.tty.Foreground()
	}
	return r.s.send(r.command, foreground)
}

// take takes note of a report and returns whether it is the last one.
func (r *run) take(rep report) (last bool) {
	switch rep.kind {
	case started:
		r.group = rep.value
	case refused:
		r.err = syscall.Errno(rep.value)
		return true
	case stopped:
		if r.tty != nil {
			r.tty.Suspend(r.group)
		}
	case exited:
		r.exited, r.code = true, rep.value
		return !r.ending
	case killed:
		r.err = ErrKilled
	}
	return false
}

// whenGone is the result when the supervisor has ended, which does in time what it is for
// unless somebody kills it.
func (r *run) whenGone() (int, error) {
	r.s.wait()
	if r.exited {
		return r.code, r.err
	}
	if r.group == 0 {
		r.group = adopted() // it was killed before it could tell
	}
	if r.group > 0 {
		f := &family{command: r.group, tell: func(report) {}}
		f.end(r.command.HangUp, r.command.KillAfter)
	}
	return 0, ErrDied
}

func (r *run) reclaim() {
	if r.tty != nil && r.group > 0 {
		r.tty.Reclaim(r.group)
	}
}

func (s *Supervisor) send(c *Command, foreground int) error {
	if _, err := s.socket.Write((&order{*c, foreground}).encode()); err != nil {
		return ErrDied
	}
	return nil
}

// readReports reads until the supervisor has gone. One that does not end in the time that it
// was given is killed.
func (s *Supervisor) readReports() <-chan report {
	s.reading = make(chan struct{})
	reports := make(chan report, 4)
	go func() {
		defer close(s.reading)
		defer close(reports)
		for {
			r, err := readReport(s.socket)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				_ = syscall.Kill(s.pid, syscall.SIGKILL)
			}
			if err != nil {
				return
			}
			reports <- r
		}
	}()
	return reports
}

// hangUp tells the supervisor to end what it runs, and itself, within a time.
func (s *Supervisor) hangUp(within time.Duration) {
	_ = s.socket.SetReadDeadline(time.Now().Add(within))
	if raw, err := s.socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) })
	}
}

// Close ends the supervisor and returns when it has gone. It must not be called while Run runs.
func (s *Supervisor) Close() {
	if <-s.begun; s.err != nil {
		return
	}
	s.hangUp(patience)
	if s.reading == nil { // nothing was run
		s.readReports()
	}
	<-s.reading
	s.wait()
	_ = s.socket.Close()
}

func (s *Supervisor) wait() {
	for s.pid > 0 {
		if _, err := syscall.Wait4(s.pid, nil, 0, nil); err != syscall.EINTR {
			s.pid = 0
		}
	}
}
