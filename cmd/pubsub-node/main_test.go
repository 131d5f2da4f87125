package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the test binary be pubsub-node too: scripts and tests run it as
// a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"pubsub-node": main})
}

// leakChecked fails when goroutines outlive the tests.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
