package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"padme/pubsub"
	"padme/qosmutex"
)

// Exit codes. A script around `pubsub-node lock` must be able to tell what
// stopped its command from running, so they keep clear of the small numbers that
// commands use themselves: 69 to 77 are those of sysexits.h, 124 to 127 those of
// timeout(1) and the shell.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69  // no broker answers, or nobody serves the lock
	exitBusy        = 75  // -n, and the lock is not free
	exitLost        = 76  // the lock was lost while the command ran
	exitRefused     = 77  // credentials, an id in use, a resource that is not allowed
	exitTimeout     = 124 // -w is over
	exitCannotRun   = 126 // the command was found and cannot be run
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // plus the number of the signal
)

// exitError is an error with an exit code. A nil cause has been told already, or
// needs no words.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// usageError says that the command line itself is wrong.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// interrupted is the cause of a context which a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by " + i.signal.String() }

// exitCode is the exit code that err stands for.
func exitCode(err error) int {
	var exit *exitError
	var sig interrupted
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &sig):
		return exitSignal + int(sig.signal)
	case errors.Is(err, qosmutex.ErrLost):
		return exitLost
	case errors.Is(err, qosmutex.ErrBusy), errors.Is(err, qosmutex.ErrDeadlineUnattainable):
		return exitBusy
	case errors.As(err, new(*qosmutex.NotReadyError)) && !errors.Is(err, qosmutex.ErrTimeout),
		errors.Is(err, pubsub.ErrUnreachable), errors.Is(err, qosmutex.ErrNoRoot), errors.Is(err, qosmutex.ErrNoServer),
		errors.Is(err, qosmutex.ErrFull):
		return exitUnavailable
	case errors.Is(err, pubsub.ErrRefused), errors.Is(err, pubsub.ErrDuplicateID),
		errors.Is(err, qosmutex.ErrUndeclared):
		return exitRefused
	case errors.Is(err, qosmutex.ErrTimeout), errors.Is(err, qosmutex.ErrDeadlineMissed), errors.Is(err, pubsub.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, pubsub.ErrInvalid), errors.Is(err, qosmutex.ErrInvalidName):
		return exitUsage
	}
	return exitFailure
}

// message is err on one line, with the name of the program in front.
func message(err error) string {
	text := flagsAlone.Replace(err.Error())
	text = severalErrors.ReplaceAllString(text, "$1; ")
	return "pubsub-node: " + printable(strings.Join(strings.Fields(text), " "))
}

// severalErrors is between two errors that errors.Join has put on lines of their own.
var severalErrors = regexp.MustCompile(`([^\s:;,.])\n`)

// flagsAlone puts the words of the command line in the place of those of Go.
var flagsAlone = strings.NewReplacer("RootCAs of WithTLS, ", "", "(WithTLS, ", "(", "Certificates of WithTLS, ", "",
	", or Open with qosmutex.Create", "", "give WithOpenResources", "give --open",
	": Dial it again", "", ": Open it again", "")
