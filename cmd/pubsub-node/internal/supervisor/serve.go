//go:build unix

package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// name is the first word of a supervisor's command line; the second is its socket.
const name = "pubsub-node-supervisor"

func init() {
	if len(os.Args) == 2 && os.Args[0] == name {
		if socket, ok := parseDecimal(os.Args[1]); ok {
			serve(socket)
			os.Exit(0)
		}
	}
	if runsCommand(os.Args) {
		early = begin()
	}
}

// serve is the life of a supervisor. It starts the command itself, on the thread that the
// program began with: Linux takes the end of the thread that started a child for the death
// of its parent.
func serve(socket int) {
	syscall.CloseOnExec(socket)
	adoptOrphans()
	nameProcess()
	// What is meant for the command but sent to its parent is handed on. None of them ends
	// the supervisor, which ends with the holder.
	passed := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) { // nohup, which the command is to inherit
			signal.Notify(passed, sig)
		}
	}
	changed := make(chan os.Signal, 1) // one is enough, for it has all of them looked at
	signal.Notify(changed, syscall.SIGCHLD)
	holder := os.NewFile(uintptr(socket), "holder")
	o, err := readOrder(holder)
	if err != nil {
		return // the holder did not get the lock
	}
	for len(passed) > 0 {
		<-passed // came before there was a command
	}
	f := &family{tell: func(r report) { r.send(holder) }}
	if f.command, err = o.start(); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		f.tell(report{refused, int(errno)})
		return
	}
	f.tell(report{started, f.command})
	signals := readSignals(holder)
	for !f.exited {
		select {
		case sig, ok := <-signals:
			if !ok {
				if f.end(o.HangUp, o.KillAfter) {
					f.tell(report{kind: killed})
				}
				return
			}
			_ = syscall.Kill(-f.command, sig)
		case sig := <-passed:
			_ = syscall.Kill(-f.command, sig.(syscall.Signal))
		case <-changed:
			f.reap()
		}
	}
}

// readSignals returns the signals for the command; it is closed when the holder is gone.
func readSignals(holder *os.File) <-chan syscall.Signal {
	signals := make(chan syscall.Signal)
	go func() {
		defer close(signals)
		b := make([]byte, 1)
		for {
			if n, err := holder.Read(b); n == 0 || err != nil {
				return
			}
			signals <- syscall.Signal(b[0])
		}
	}()
	return signals
}

func (o *order) start() (pid int, err error) {
	attr := groupAttributes()
	if o.foreground >= 0 {
		attr.Foreground, attr.Ctty = true, o.foreground
	}
	return syscall.ForkExec(o.Path, o.Argv, &syscall.ProcAttr{Env: o.Env, Files: standardStreams, Sys: attr})
}

// standardStreams are all that the command and its supervisor get of us, and what whoever
// started us left open.
var standardStreams = []uintptr{0, 1, 2}
