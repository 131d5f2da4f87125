//go:build unix

package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"padme/tests/address"
	"padme/tests/proxy"
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

// -w and --deadline count from the start: what connecting has taken is not there any more for the lock.
func TestWaitCountsFromTheStart(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	startBrokerProcess(t, dir, addr, "--no-locks")
	far := proxy.Start(t, addr)
	far.Delay(300 * time.Millisecond) // connecting takes more than a second
	s := &site{t: t, url: far.URL(), dir: dir}
	for _, flags := range []string{"-w 2s", "--deadline 2s", "-w 2s --timeout 20s"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := s.run(append(append([]string{"lock", "crane", "-v"}, strings.Fields(flags)...), "--", "true")...)
			took := regexp.MustCompile(`connect ([0-9.]+) ms, lock ([0-9.]+) ms`).FindStringSubmatch(stderr)
			if code != exitTimeout || took == nil {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			connect, _ := strconv.ParseFloat(took[1], 64)
			lock, _ := strconv.ParseFloat(took[2], 64)
			if connect < 1000 || connect+lock > 2800 {
				t.Errorf("%v ms to connect, and %v ms for the lock", connect, lock)
			}
		})
	}
}
