//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/tests/extent"
)

// flooded is for how long the honest members are measured while they are flooded.
var flooded = extent.Of(2*time.Second, 5*time.Second)

// The attacker is a process of its own that yields to all others, so that what it computes
// itself costs the broker and the honest members as little as if it were on another
// machine. It attacks as fast as it can until its input ends.
const attackerIs = "HOSTILE_ATTACKER"

// attackers are what it does, by name. Each begins to attack and returns.
var attackers = map[string]func(addr, root string) error{
	"long messages": func(addr, root string) error {
		deep := bytes.Repeat([]byte{0x91}, 900_000)
		brackets := bytes.Repeat([]byte("["), 900_000)
		text := append(append([]byte(`{"event":"`), bytes.Repeat([]byte("x"), 900_000)...), `","fence":"1"}`...)
		return sendForEver(addr,
			packet(0x30, str(r+"node/"+root+"/mallory"), deep),
			packet(0x30, str(r+"lock/crane/join/mallory"), deep),
			bytes.Join([][]byte{packet(0x31, str(r+"lock/crane/events"), brackets), packet(0x31, str(r+"lock/crane/hook/state"), text)}, nil),
			bytes.Join([][]byte{packet(0x31, str(r+"presence/mallory"), brackets), packet(0x31, str(r+"ep/t/mallory/w1"), text)}, nil),
		)
	},
	"a thousand bytes": func(addr, root string) error {
		load := bytes.Repeat([]byte("x"), 1000)
		inbox, joins := packet(0x30, str(r+"node/"+root+"/mallory"), load), packet(0x30, str(r+"lock/crane/join/mallory"), load)
		return sendForEver(addr, inbox, inbox, joins, joins)
	},
	"a byte": func(addr, root string) error {
		inbox, joins := packet(0x30, str(r+"node/"+root+"/mallory"), []byte("x")), packet(0x30, str(r+"lock/crane/join/mallory"), []byte("x"))
		return sendForEver(addr, inbox, inbox, joins, joins)
	},
	"retained topics": func(addr, _ string) error {
		load := bytes.Repeat([]byte("x"), 100_000)
		var all [][]byte
		for i := range 1000 {
			all = append(all, packet(0x31, str(fmt.Sprintf("%sdata/p/t/k%d/mallory/w", r, i)), load))
		}
		return sendForEver(addr, bytes.Join(all, nil))
	},
	"readers of everything": func(addr, _ string) error {
		for i := range 100 {
			c, err := enterFrom(addr, fmt.Sprint("reader-", i))
			if err != nil {
				return err
			}
			if _, err := c.Write(packet(0x82, []byte{0, 1}, str("#"), []byte{0})); err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
		return nil
	},
}

// enterFrom logs mallory in.
func enterFrom(addr, id string) (net.Conn, error) { return enterAs(addr, "mallory", id) }

// enterAs logs a user in.
func enterAs(addr, user, id string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(packet(0x10, str("MQTT"), []byte{4, 0xc2, 0, 0}, str(id), str(user), str(user))); err != nil {
		return nil, err
	}
	var answer [4]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil || answer[3] != 0 {
		return nil, fmt.Errorf("CONNACK %d: %w", answer[3], err)
	}
	return c, nil
}

// sendForEver sends each of the packets on a connection of its own, again and again.
func sendForEver(addr string, packets ...[]byte) error {
	for i, p := range packets {
		c, err := enterFrom(addr, fmt.Sprint("flood-", i))
		if err != nil {
			return err
		}
		if len(p) < 1<<14 {
			p = bytes.Repeat(p, 1<<14/len(p)+1)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
		go func() {
			for {
				if _, err := c.Write(p); err != nil {
					fmt.Fprintln(os.Stderr, "the attacker:", err)
					return
				}
			}
		}()
	}
	return nil
}

// attackUntilTold is the attacker's process.
func attackUntilTold(name string) int {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
	addr, root, _ := strings.Cut(os.Getenv(attackerIs+"_AT"), " ")
	if err := attackers[name](addr, root); err != nil {
		fmt.Fprintln(os.Stderr, "the attacker:", err)
		return 1
	}
	fmt.Println("attacking")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// attack runs an attacker for as long as the honest members are measured.
func (n *node) attack(t *testing.T, name string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), attackerIs+"="+name, attackerIs+"_AT="+n.addr+" "+root)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("the attacker says %q: %v", line, err)
	}
	time.Sleep(flooded)
	_ = in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("the attacker: %v", err)
	}
}

// Whoever floods the broker, or has everything sent to a hundred connections, takes its own
// time, and not that of others.
func TestFloodsTakeTheirOwnTime(t *testing.T) {
	extent.Long(t, "six floods, one after the other")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	base := n.memory(t, "VmRSS")
	for _, name := range []string{"a thousand bytes", "a byte", "long messages", "retained topics", "readers of everything"} {
		t.Run(name, func(t *testing.T) {
			in, cpu := n.sum(t, "padme_broker_received_bytes_total"), n.cpu(t)
			h.during(t, func() { n.attack(t, name) })
			t.Logf("%.0f MB came in, %.1f s of processor; resident %d MB more, %d at most so far", (n.sum(t, "padme_broker_received_bytes_total")-in)/1e6, (n.cpu(t) - cpu).Seconds(),
				(n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > most {
		t.Errorf("the floods have cost %d MB", cost>>20)
	}
}

// cpu is how much processor time the node has used.
func (n *node) cpu(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	var user, system int64
	_, _ = fmt.Sscan(f[11]+" "+f[12], &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}
