//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// keyboard is the terminal on standard input, which gives each key at once and shows none.
type keyboard struct {
	terminal
	before, keys unix.Termios
}

// quitKey returns a context that ends, as if by INT, when q is pressed at the terminal on
// standard input, which shows no keys until restore. Without such a terminal, or in the
// background, where the keys are for the shell, it is ctx.
//
// Nothing ends a read from a terminal, so the goroutine that reads is left behind when ctx
// ends; the process ends soon after.
func quitKey(ctx context.Context) (quitting context.Context, restore func()) {
	k := &keyboard{terminal: terminal{int(os.Stdin.Fd())}}
	before, err := unix.IoctlGetTermios(k.fd, getTermios)
	if err != nil || !k.ours() {
		return ctx, func() {}
	}
	k.before, k.keys = *before, *before
	k.keys.Lflag &^= unix.ICANON | unix.ECHO
	k.keys.Cc[unix.VMIN], k.keys.Cc[unix.VTIME] = 1, 0
	signal.Ignore(syscall.SIGTTIN) // put into the background later, it only hears no keys any more
	jobs := make(chan os.Signal, 2)
	signal.Notify(jobs, syscall.SIGTSTP, syscall.SIGCONT)
	k.set(&k.keys)
	quitting, quit := context.WithCancelCause(ctx)
	stop := inBackground(quitting, func(ctx context.Context) { k.followShell(ctx, jobs) })
	go func() {
		key := make([]byte, 1)
		for {
			switch n, err := os.Stdin.Read(key); {
			case err != nil:
				return
			case n == 1 && (key[0] == 'q' || key[0] == 'Q'):
				quit(interrupted{syscall.SIGINT})
				return
			}
		}
	}()
	return quitting, func() {
		quit(nil)
		stop()
		signal.Stop(jobs)
		k.set(&k.before)
	}
}

// set changes the terminal if it is ours.
func (k *keyboard) set(to *unix.Termios) {
	if k.ours() {
		_ = unix.IoctlSetTermios(k.fd, setTermios, to)
	}
}

// followShell gives the terminal back as it was while a shell has the process stopped or in
// the background: not every shell restores it itself.
func (k *keyboard) followShell(ctx context.Context, jobs <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-jobs:
			if s == syscall.SIGCONT {
				k.set(&k.keys)
				continue
			}
			k.set(&k.before)
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	}
}
