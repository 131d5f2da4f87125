//go:build unix

package main

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"padme/tests/address"
)

// Where nobody can grant the lock, -w ends when it says, and not when a server would have
// answered that the request is over.
func TestWaitEndsOnTime(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	startBrokerProcess(t, dir, addr, "--no-locks")
	s := &site{t: t, url: "mqtt://" + addr, dir: dir}
	least := time.Hour // a busy machine is late at times
	for range 5 {
		code, _, stderr := s.run("lock", "crane", "-w", "200ms", "-v", "--", "true")
		took := regexp.MustCompile(`release ([0-9.]+) ms`).FindStringSubmatch(stderr)
		if code != exitTimeout || took == nil {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		ms, err := strconv.ParseFloat(took[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Duration(ms*float64(time.Millisecond)))
	}
	if least > 300*time.Millisecond {
		t.Errorf("it ended %v after the wait", least)
	}
}
