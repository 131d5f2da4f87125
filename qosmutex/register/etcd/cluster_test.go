//go:build unix

package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"padme/tests/process"
)

// cluster is three real members on this machine.
type cluster struct {
	t       *testing.T
	members []*member
}

type member struct {
	client string // URL
	args   []string
	log    bytes.Buffer
	cmd    *exec.Cmd // nil while it does not run
}

// startCluster starts three members, or skips the test where there is no etcd and no
// continuous integration.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	binary := process.Need(t, "apt-get install etcd-server", "etcd")
	const n = 3
	c := &cluster{t: t}
	urls := freeURLs(t, 2*n)
	var initial []string
	for i := range n {
		initial = append(initial, fmt.Sprintf("m%d=%s", i, urls[n+i]))
	}
	dir := t.TempDir()
	for i := range n {
		c.members = append(c.members, &member{client: urls[i], args: []string{
			binary, "--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, fmt.Sprint(i)),
			"--listen-client-urls", urls[i], "--advertise-client-urls", urls[i],
			"--listen-peer-urls", urls[n+i], "--initial-advertise-peer-urls", urls[n+i],
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", "padme-test",
			"--heartbeat-interval", "100", "--election-timeout", "1000",
		}})
	}
	t.Cleanup(func() {
		for i := range c.members {
			c.kill(i)
		}
	})
	for i := range n {
		c.start(i)
	}
	c.waitHealthy()
	return c
}

// freeURLs finds ports that were free a moment ago.
func freeURLs(t *testing.T, n int) []string {
	t.Helper()
	var urls []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls
}

func (c *cluster) endpoints() []string {
	var list []string
	for _, m := range c.members {
		list = append(list, m.client)
	}
	return list
}

func (c *cluster) start(i int) {
	m := c.members[i]
	m.cmd = exec.Command(m.args[0], m.args[1:]...)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	m.cmd.SysProcAttr = endsWithUs()
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// kill is kill -9.
func (c *cluster) kill(i int) {
	m := c.members[i]
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd = nil
}

// stall stops a member with its connections open, as a partition does.
func (c *cluster) stall(i int, stalled bool) {
	signal := syscall.SIGCONT
	if stalled {
		signal = syscall.SIGSTOP
	}
	if err := c.members[i].cmd.Process.Signal(signal); err != nil {
		c.t.Error(err)
	}
}

// waitHealthy waits until a write of each member is committed.
func (c *cluster) waitHealthy() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for i, m := range c.members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, Logger: zap.NewNop()})
		if err != nil {
			c.t.Fatal(err)
		}
		for {
			some, end := context.WithTimeout(ctx, time.Second)
			_, err = client.Put(some, "health", "")
			end()
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		_ = client.Close()
		if err != nil {
			c.t.Fatalf("member %d does not work: %v\n%s", i, err, c.members[i].log.Bytes()[max(0, c.members[i].log.Len()-3000):])
		}
	}
}

// leader returns which member leads.
func (c *cluster) leader() int {
	c.t.Helper()
	for i, m := range c.members {
		if m.cmd == nil {
			continue
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, Logger: zap.NewNop()})
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		s, err := client.Status(ctx, m.client)
		cancel()
		_ = client.Close()
		if err == nil && s.Header.MemberId == s.Leader {
			return i
		}
	}
	return 0
}
