//go:build unix

package main

import (
	"path/filepath"
	"testing"
	"time"

	"padme/tests/address"
	"padme/tests/poll"
)

// A gateway that was away for long knows only after a TTL who holds: "lock rm" waits for that.
func TestRemoveWaitsForARootThatHasJustBegun(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	dir, addr := t.TempDir(), address.Free(t)
	startBrokerProcess(t, dir, addr, "--no-locks")
	s := &site{t: t, url: "mqtt://" + addr, dir: dir}
	serve := func(ready string) *node {
		n := startNode(t, dir, s.url, "serve", "--data", "kept", "--ttl", ttl.String(), "--ready-file", ready)
		poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, ready)) })
		return n
	}
	first := serve("first")
	if code, _, stderr := s.run("lock", "crane", "-w", "20s", "--", "true"); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	first.terminate(t)
	time.Sleep(ttl + ttl/2) // its lease is over
	serve("second")
	if code, _, stderr := s.run("lock", "rm", "crane"); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
