package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/term"

	"padme/qosmutex"
)

// shellArgs are the arguments of `lock NAME --shell`.
func shellArgs(args []string) error {
	switch len(args) {
	case 0:
		return usageError("which lock? give NAME or NAME/RESOURCE")
	case 1:
		return nil
	}
	return usageError("--shell and a command contradict each other: give one of them")
}

// command is what runs under the lock.
func (f *lockFlags) command(args []string) []string {
	if f.shell {
		return []string{userShell()}
	}
	return args[1:]
}

// userShell is the shell of whoever runs this.
func userShell() string {
	if runtime.GOOS == "windows" {
		return cmp.Or(os.Getenv("ComSpec"), "cmd.exe")
	}
	return cmp.Or(os.Getenv("SHELL"), "/bin/sh")
}

// welcome tells a person what their shell is for; its prompt may look as it always does.
func (f *lockFlags) welcome(hold *qosmutex.Hold) {
	if f.shell && term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "pubsub-node: this shell holds lock %s/%s: its end releases it\n", printable(hold.Topic()), printable(hold.Resource()))
	}
}
