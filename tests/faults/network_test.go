//go:build linux

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// network is a router between network namespaces, one for the broker and one for
// each member. Packets go through this process, which drops some of them: below
// TCP, so that only its own repetitions bring them.
type network struct {
	name string
	tuns []*os.File
	work sync.WaitGroup

	cut  atomic.Int64  // index of who is cut off; -1: nobody
	loss atomic.Uint64 // of 1000 packets, as many are dropped
}

// networks numbers those of this process.
var networks atomic.Int64

// needNetworks skips the test where no namespaces can be made. Continuous
// integration must be able to.
func needNetworks(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("ip")
	switch {
	case os.Geteuid() != 0:
		err = errors.New("not root")
	case err == nil:
		_, err = os.Stat("/dev/net/tun")
	}
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("network namespaces cannot be made: %v: run as root with iproute2", err)
	}
	t.Skipf("network namespaces cannot be made: %v", err)
}

// newNetwork makes a network of n hosts.
func newNetwork(t *testing.T, n int) *network {
	t.Helper()
	net := &network{name: fmt.Sprintf("padme%d-%d", os.Getpid(), networks.Add(1))}
	net.cut.Store(-1)
	t.Cleanup(net.close)
	for i := range n {
		if err := net.addHost(i); err != nil {
			t.Fatalf("host %d of a network: %v", i, err)
		}
	}
	for i := range net.tuns {
		net.work.Go(func() { net.route(i) })
	}
	return net
}

func (n *network) namespace(host int) string { return fmt.Sprintf("%s-%d", n.name, host) }

func (n *network) address(host int) string { return fmt.Sprintf("10.77.0.%d", host+1) }

// addHost makes a namespace whose only way out is a device that we read.
func (n *network) addHost(host int) error {
	namespace := n.namespace(host)
	device := fmt.Sprintf("pd%x%x", os.Getpid()&0xffffff, networks.Add(1)) // 15 bytes at most
	if err := ip("netns", "add", namespace); err != nil {
		return err
	}
	tun, err := openTUN(device)
	if err != nil {
		return err
	}
	n.tuns = append(n.tuns, tun)
	for _, args := range [][]string{
		{"link", "set", device, "netns", namespace},
		{"-n", namespace, "link", "set", "lo", "up"},
		{"-n", namespace, "addr", "add", n.address(host) + "/24", "dev", device},
		{"-n", namespace, "link", "set", device, "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

func openTUN(device string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(device)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("device %s: %w", device, err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// route carries what one host sends.
func (n *network) route(from int) {
	buffer := make([]byte, 2048)
	for {
		size, err := n.tuns[from].Read(buffer)
		if err != nil {
			return
		}
		if size < 20 || buffer[0]>>4 != 4 {
			continue // a namespace's first words are in IPv6
		}
		to := int(buffer[19]) - 1
		cut := int(n.cut.Load())
		if to < 0 || to >= len(n.tuns) || to == cut || from == cut || rand.Uint64N(1000) < n.loss.Load() {
			continue
		}
		_, _ = n.tuns[to].Write(buffer[:size])
	}
}

// close takes everything down; the processes in it have ended.
func (n *network) close() {
	for _, tun := range n.tuns {
		_ = tun.Close()
	}
	n.work.Wait()
	for i := range n.tuns {
		_ = ip("netns", "del", n.namespace(i))
	}
}
