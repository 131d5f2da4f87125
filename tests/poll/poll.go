// Package poll has tests wait for what nothing tells them of.
package poll

import (
	"testing"
	"time"
)

// Patience is how long Until waits: far more than anything takes on a busy machine.
const Patience = 20 * time.Second

// Until waits until a condition holds. If it does not, the test fails and says what was
// waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, Patience, what, holds)
}

// Within is Until with a limit of its own.
func Within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	if !within(limit, holds) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

// UntilOr is Until for a test that fails with the state that it is in then.
func UntilOr(t testing.TB, holds func() bool, state func() string) {
	t.Helper()
	if !within(Patience, holds) {
		t.Fatalf("after %v: %s", Patience, state())
	}
}

// within looks every millisecond at first, then less often, so that a long wait costs
// others no processor: each pause is a tenth of the wait so far, but at most 20 ms.
func within(limit time.Duration, holds func() bool) bool {
	for begin := time.Now(); !holds(); {
		waited := time.Since(begin)
		if waited > limit {
			return false
		}
		time.Sleep(min(max(waited/10, time.Millisecond), 20*time.Millisecond))
	}
	return true
}
