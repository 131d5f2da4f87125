//go:build unix

package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
)

// What clients say to a broker that was started again, as soon as it answers them, is heard by
// its lock node: a release that is not would leave the lock held until its lease ends.
func TestTheFirstRequestsAfterARestartAreHeard(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	data := filepath.Join(dir, "data")
	b := startBrokerProcess(t, dir, addr, "--data", data)
	ask := func(c *aclClient, op, want string, again bool) {
		t.Helper()
		const topic = "padme/v1/default/lock/crane/client/esp/"
		if token := c.Subscribe(topic+"answer", 1, nil); !token.WaitTimeout(patienceInTests) || token.Error() != nil {
			t.Fatal(token.Error())
		}
		say := func() {
			c.publish(t, topic+"request", `{"op":"`+op+`","id":"1","session":"s","lease_ms":60000}`, false)
		}
		say()
		poll.Until(t, op+" is answered", func() bool {
			if again {
				say()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			return strings.Contains(strings.Join(c.got, "\n"), want)
		})
	}
	c, err := aclConnect(addr, "esp", "")
	if err != nil {
		t.Fatal(err)
	}
	ask(c, "acquire", `"outcome":"granted"`, true) // its register is new, and grants nothing at first
	_ = b.Cmd.Process.Kill()
	b.exit(t)
	startNode(t, dir, "", "broker", "--listen", addr, "--data", data)
	poll.Until(t, "a connection is made", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if c, err = aclConnect(addr, "esp", ""); err != nil {
		t.Fatal(err)
	}
	ask(c, "release", `"outcome":"released"`, false)
	c.end()
}
