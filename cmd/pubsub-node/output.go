package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errClosedOutput ends a verb that could not print all of its output, as SIGPIPE would.
var errClosedOutput = &exitError{code: exitSignal + int(syscall.SIGPIPE)}

// errClosedStream ends a verb that prints until it is interrupted: a reader that closes the pipe
// has what it wanted.
var errClosedStream = &exitError{}

// outliveReaders has a write to a closed pipe fail instead of killing this process, which
// could not leave the domain. Programs that this one starts would inherit a signal that is
// ignored; one that is noticed kills them as ever.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// output is standard output. A write fails with closed after its reader has closed the pipe.
type output struct {
	io.Writer
	closed error
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, errClosedOutput) {
		err = o.closed
	}
	return n, err
}

// stream is the output of a verb that prints until it is interrupted.
func stream(cmd *cobra.Command) io.Writer { return output{cmd.OutOrStdout(), errClosedStream} }
