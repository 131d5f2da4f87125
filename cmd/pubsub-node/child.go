package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"

	"padme/cmd/pubsub-node/internal/supervisor"
)

// findCommand looks for the program before the lock is taken: nobody should wait
// for a command which cannot run.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission):
		return "", &exitError{exitCannotRun, fmt.Errorf("cannot run %q: it is not executable", name)}
	case errors.Is(err, syscall.EISDIR):
		return "", &exitError{exitCannotRun, fmt.Errorf("cannot run %q: it is a directory", name)}
	default:
		return "", &exitError{exitNotFound, fmt.Errorf("command not found: %q", name)}
	}
}

// runUnder runs the command until it exits or hold ends, and returns its exit
// code. Signals go to the command; one that ended ctx before keeps it from
// starting. When hold ends first the command and all that it has started is ended, as the
// supervisor says.
func runUnder(ctx, hold context.Context, sigs *signals, keeper *supervisor.Supervisor, command *supervisor.Command) (int, error) {
	pending := make(chan syscall.Signal, 16)
	sigs.handTo(func(sig syscall.Signal) {
		select {
		case pending <- sig:
		default: // sixteen wait already
		}
	})
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	code, err := keeper.Run(command, standardTerminal(), pending, hold.Done())
	if err != nil && !errors.Is(err, supervisor.ErrKilled) && !errors.Is(err, supervisor.ErrDied) {
		return 0, &exitError{exitCannotRun, fmt.Errorf("cannot run %q: %w", command.Argv[0], err)}
	}
	return code, err
}
