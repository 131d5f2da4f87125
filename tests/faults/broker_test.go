//go:build linux

package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"padme/broker"
)

// brokerJob is what a broker process is to do.
type brokerJob struct{ Address, Data string }

// serve runs a broker until its standard input ends or it is killed.
func serve(j brokerJob) error {
	ctx := context.Background()
	b, err := broker.Start(ctx, broker.Config{TCP: j.Address, DataDir: j.Data})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return b.Close(ctx)
}

// brokerKind is which broker, and whether it has a memory.
type brokerKind struct{ mosquitto, durable bool }

func (c *cluster) startBroker() {
	c.t.Helper()
	data := ""
	if c.kind.durable {
		data = filepath.Join(c.dir, "broker")
	}
	namespace := ""
	if c.network != nil {
		namespace = c.network.namespace(0)
	}
	if !c.kind.mosquitto {
		c.broker = startSelf(c.t, namespace, brokerEnv, brokerJob{c.address, data})
		if !c.broker.out.Scan() {
			c.broker.kill()
			c.t.Fatalf("the broker did not start: %s", &c.broker.stderr)
		}
		return
	}
	c.broker = start(c.t, "", nil, "mosquitto", "-c", mosquittoConfig(c.t, c.dir, c.address))
	c.await("mosquitto serves", bound, func() bool {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

func mosquittoConfig(t *testing.T, dir, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %s %s\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n", port, host)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hasMosquitto reports whether it is there. Continuous integration must have it.
func hasMosquitto(t *testing.T) bool {
	_, err := exec.LookPath("mosquitto")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("mosquitto is not installed: apt-get install mosquitto")
	}
	return err == nil
}
