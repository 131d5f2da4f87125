package padme

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A failure prints its scenario, which belongs in testdata; the seed is not needed.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}
