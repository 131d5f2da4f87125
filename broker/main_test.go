package broker_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"padme/tests/parallel"
)

// TestMain runs the tests, or is the broker that a test kills: see
// persistence_test.go.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PADME_BROKER_VICTIM"); dir != "" {
		runVictim(dir)
		return
	}
	parallel.Tests(4)
	goleak.VerifyTestMain(m)
}
