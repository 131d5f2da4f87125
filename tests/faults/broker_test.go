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
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/local"
)

// brokerJob is what a broker process is to do.
type brokerJob struct {
	Address, Data string
	Register      string // the file; "": it has nothing to do with locks
	Models        string
	LAN           bool // timing; else Local
}

// serve runs a broker until its standard input ends or it is killed.
func serve(j brokerJob) error {
	ctx := context.Background()
	b, err := broker.Start(ctx, broker.Config{TCP: j.Address, DataDir: j.Data})
	if err == nil && j.Register != "" {
		err = j.beRoot(ctx, b)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return b.Close(ctx)
}

// beRoot has the broker's process be the root, by a register of its own.
func (j *brokerJob) beRoot(ctx context.Context, b *broker.Broker) error {
	r, err := local.Open(j.Register)
	if err != nil {
		return err
	}
	p, err := pubsub.Join(ctx, b.URL(), "node", pubsub.WithDialer(b.Dial), pubsub.WithTakeover())
	if err != nil {
		return err
	}
	opts, err := options(j.Models, j.LAN)
	if err == nil {
		_, err = qosmutex.Open(ctx, p, topicName, append(opts, qosmutex.Create(), qosmutex.WithRegister(r), qosmutex.WithNodePriority(-1))...)
	}
	return err
}

// brokerKind is which broker, whether it has a memory, and whether its process is the
// root.
type brokerKind struct{ mosquitto, durable, root bool }

func (c *cluster) startBroker() {
	c.t.Helper()
	data := ""
	if c.kind.durable {
		data = filepath.Join(c.dir, "broker")
	}
	register := ""
	if c.kind.root {
		register = filepath.Join(c.dir, "register")
	}
	namespace := ""
	if c.network != nil {
		namespace = c.network.namespace(0)
	}
	if !c.kind.mosquitto {
		c.broker = startSelf(c.t, namespace, brokerEnv, brokerJob{c.address, data, register, c.models, c.lan})
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
