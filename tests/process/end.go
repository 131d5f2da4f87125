package process

import (
	"fmt"
	"testing"
	"time"
)

// Ended waits until the process ends by itself, and returns its exit code.
func (p *Process) Ended(limit time.Duration) (code int, err error) {
	select {
	case <-p.Done:
		return p.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s has not ended after %v: %s", p.Name, limit, p.Printed())
	}
}

// Exit is Ended for a test that fails if it takes longer.
func (p *Process) Exit(t testing.TB, limit time.Duration) int {
	t.Helper()
	code, err := p.Ended(limit)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Await waits until the process ends well.
func (p *Process) Await(t testing.TB, limit time.Duration) {
	t.Helper()
	if p.Exit(t, limit) != 0 {
		t.Fatalf("%s: %v: %s", p.Name, p.ProcessState, p.Printed())
	}
}
