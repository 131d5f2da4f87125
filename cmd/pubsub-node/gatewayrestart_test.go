//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
)

// ttlOfGateways is longer than the default: where the tests of other packages run as well, a process
// may take long to start.
const ttlOfGateways = 6 * time.Second

// TestGatewayRestartCostsNoHold: the only gateway at a broker of somebody else ends, or is
// killed, and is started again. A command under a lock goes on, whoever waits for it gets it
// then, and another lock is there at once.
func TestGatewayRestartCostsNoHold(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url := "mqtt://" + addr
			startBrokerProcess(t, dir, addr, "--no-locks")
			serve := func() *node {
				_ = os.Remove(filepath.Join(dir, "serves"))
				n := startNode(t, dir, url, "serve", "--ready-file", "serves", "--ttl", ttlOfGateways.String())
				poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "serves")) })
				return n
			}
			gateway := serve()
			if code := startNode(t, dir, url, "lock", "gate", "--", "true").exit(t); code != 0 {
				t.Fatalf("the first command: exit code %d", code)
			}
			ends := holdsCrane(t, dir, url)
			for range extent.Of(2, 6) {
				if err := gateway.Cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				gateway.exit(t)
				gateway = serve()
				begun := time.Now()
				if code := startNode(t, dir, url, "lock", "gate", "-w", "20s", "--", "true").exit(t); code != 0 {
					t.Errorf("another lock: exit code %d", code)
				}
				t.Logf("another lock was had after %v", time.Since(begun).Round(time.Millisecond))
				time.Sleep(ttlOfGateways)
			}
			ends()
		})
	}
}

// holdsCrane has a command hold a lock, and another one wait for it. What it returns ends the first one,
// and checks that both went well, one after the other.
func holdsCrane(t *testing.T, dir, url string) (ends func()) {
	t.Helper()
	command := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done")
	poll.Until(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
	waiter := startNode(t, dir, url, "lock", "crane", "-w", "60s", "--", "touch", "entered")
	time.Sleep(ttlOfGateways / 4) // by then the hold is confirmed, and the other one waits
	return func() {
		t.Helper()
		if exists(filepath.Join(dir, "entered")) {
			t.Error("two were inside at once")
		}
		if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := command.exit(t); code != 0 {
			t.Errorf("the command: exit code %d: %s", code, &command.Err)
		}
		if code := waiter.exit(t); code != 0 {
			t.Errorf("who waited: exit code %d: %s", code, &waiter.Err)
		}
	}
}

// TestGatewayStartedWithOtherFlags: the only gateway is started again with flags that the lock cannot
// have, and then with others that it can. The command that holds it goes on.
func TestGatewayStartedWithOtherFlags(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	url := "mqtt://" + addr
	startBrokerProcess(t, dir, addr, "--no-locks")
	serve := func(flags ...string) *node {
		_ = os.Remove(filepath.Join(dir, "serves"))
		n := startNode(t, dir, url, append([]string{"serve", "crane", "--ready-file", "serves", "--ttl", ttlOfGateways.String()}, flags...)...)
		poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "serves")) })
		return n
	}
	first := serve("--resources", "a,b")
	command := startNode(t, dir, url, "lock", "crane/a", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done")
	poll.Until(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
	time.Sleep(ttlOfGateways / 4) // by then the hold is confirmed
	first.terminate(t)
	if n := startNode(t, dir, url, "serve", "crane", "--ttl", "20s"); n.exit(t) == 0 || !strings.Contains(n.Err.String(), "pubsub-node lock rm crane") {
		t.Errorf("another TTL: %s", &n.Err)
	}
	second := serve("--resources", "a,b,c")
	poll.Until(t, "it warns", func() bool { return strings.Contains(second.Err.String(), "warning: lock crane had other settings") })
	if code := startNode(t, dir, url, "lock", "crane/c", "-w", "20s", "--", "true").exit(t); code != 0 {
		t.Errorf("a resource that is new: exit code %d", code)
	}
	time.Sleep(ttlOfGateways)
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := command.exit(t); code != 0 {
		t.Errorf("the command: exit code %d: %s", code, &command.Err)
	}
}

// terminate ends a process in good order.
func (n *node) terminate(t *testing.T) {
	t.Helper()
	if err := n.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.exit(t)
}

// TestVotersRestartCostsNoHold: three gateways at a broker of somebody else are ended, or killed, and
// started again one after another, as at an upgrade. One of them serves the lock and one is its
// root. The command that holds it goes on, and whoever waits for it gets it then.
func TestVotersRestartCostsNoHold(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url := "mqtt://" + addr
			startBrokerProcess(t, dir, addr, "--no-locks")
			ids := []string{"v1", "v2", "v3"}
			serve := func(id string) *node {
				_ = os.Remove(filepath.Join(dir, "serves-"+id))
				return startNode(t, dir, url, "serve", "--id", id, "--voters", strings.Join(ids, ","), "--data", id,
					"--ready-file", "serves-"+id, "--ttl", ttlOfGateways.String())
			}
			serves := func(id string) {
				poll.Until(t, id+" serves", func() bool { return exists(filepath.Join(dir, "serves-"+id)) })
			}
			gateways := map[string]*node{}
			for _, id := range ids {
				gateways[id] = serve(id)
			}
			for _, id := range ids {
				serves(id)
			}
			ends := holdsCrane(t, dir, url)
			for _, id := range ids {
				if err := gateways[id].Cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				gateways[id].exit(t)
				gateways[id] = serve(id)
				serves(id)
				time.Sleep(ttlOfGateways / 2)
			}
			ends()
		})
	}
}
