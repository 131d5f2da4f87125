package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"padme/tests/parallel"
	"padme/tests/state"
)

// TestMain makes the test binary be pubsub-node too: scripts and tests run it as
// a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"pubsub-node": main})
}

// leakChecked fails when goroutines outlive the tests.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	parallel.Tests(5)
	hearSignals()
	defer ownState()()
	code := m.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// ownState gives brokers without --data a directory that does not outlive the tests.
func ownState() (remove func()) {
	dir, err := os.MkdirTemp("", "pubsub-node")
	if err != nil {
		panic(err)
	}
	state.In(dir)
	return func() { _ = os.RemoveAll(dir) }
}

// hearSignals undoes what nohup and a shell's background jobs ignore, since processes
// inherit that: the commands under test would rightly ignore those signals, too.
func hearSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
