//go:build linux

package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"padme/tests/parallel"
)

var (
	injections = flag.Int("injections", 1, "how many faults of each kind")
	only       = flag.String("models", "", "take these models for each cluster; default: all fair ones in turn")
	failovers  = flag.Int("failovers", 2, "how many holders are killed for the time to the next entry")
)

// Environment variables that make the test binary one of the processes. Their
// values are JSON.
const (
	workerEnv = "PADME_TEST_WORKER"
	brokerEnv = "PADME_TEST_BROKER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(workerEnv) != "":
		exit(work(argument[job](workerEnv)))
	case os.Getenv(brokerEnv) != "":
		exit(serve(argument[brokerJob](brokerEnv)))
	}
	parallel.Tests(3)
	goleak.VerifyTestMain(m)
}

func argument[T any](env string) (v T) {
	if err := json.Unmarshal([]byte(os.Getenv(env)), &v); err != nil {
		exit(err)
	}
	return v
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// instant is a reading of the clock that all processes of a machine share.
type instant int64

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return instant(ts.Nano())
}

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }
