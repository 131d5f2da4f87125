//go:build linux

package hostile

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
	"padme/tests/state"
)

// patience bounds every waiting.
const patience = 60 * time.Second

// root is the node's own participant, which roots the locks.
var program, root string

func TestMain(m *testing.M) {
	if name := os.Getenv(attackerIs); name != "" {
		os.Exit(attackUntilTold(name))
	}
	flag.Parse()
	if testing.Short() { // every test that needs the program is skipped
		os.Exit(m.Run())
	}
	dir, remove := process.Build("padme/cmd/pubsub-node")
	state.In(dir)
	program = filepath.Join(dir, "pubsub-node")
	code := m.Run()
	if testing.Verbose() {
		printEffects(os.Stdout)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	remove()
	os.Exit(code)
}

// node is a real `pubsub-node broker` with users and metrics.
type node struct {
	*process.Process
	args    []string
	ready   string      // file that says that it serves
	addr    string      // of MQTT
	tls     *tls.Config // of who connects; nil: the node speaks none
	metrics string      // URL
}

func (n *node) url() string {
	if n.tls != nil {
		return "mqtts://" + n.addr
	}
	return "mqtt://" + n.addr
}

// credentials are the options of a user that joins.
func (n *node) credentials(user string) []pubsub.Option {
	opts := []pubsub.Option{pubsub.WithCredentials(user, user)}
	if n.tls != nil {
		opts = append(opts, pubsub.WithTLS(n.tls))
	}
	return opts
}

// startNode starts a node with these arguments more; a user's password is its name.
func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	return startNodeFor(t, nil, args...)
}

// startNodeFor is startNode with more users.
func startNodeFor(t *testing.T, more map[string]broker.Role, args ...string) *node {
	t.Helper()
	extent.NotShort(t, "real processes")
	dir := t.TempDir()
	all := map[string]broker.Role{
		"alice": broker.Member, "bob": broker.Member, "mallory": broker.Member, "esp": broker.Client, "eve": broker.Client, "spy": broker.Admin, "watch": broker.Observer,
	}
	maps.Copy(all, more)
	var users broker.Users
	for name, role := range all {
		if err := users.Add(name, name); err != nil {
			t.Fatal(err)
		}
		if err := users.Grant(name, role); err != nil {
			t.Fatal(err)
		}
	}
	file, ready := filepath.Join(dir, "users"), filepath.Join(dir, "ready")
	if err := users.Save(file); err != nil {
		t.Fatal(err)
	}
	n := &node{args: append([]string{"broker", "--listen", "127.0.0.1:0", "--users", file, "--metrics", "127.0.0.1:0", "--ready-file", ready}, args...), ready: ready}
	t.Cleanup(func() {
		if n.Process != nil {
			n.Kill()
		}
	})
	n.start(t)
	return n
}

// start starts the process and waits until it serves.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.metrics = ""
	_ = os.Remove(n.ready)
	p, err := process.Run(process.Options{Name: "the node", Last: 1 << 20}, append([]string{program}, n.args...)...)
	if err != nil {
		t.Fatal(err)
	}
	n.Process = p // beyond a subtest that starts it again
	poll.Within(t, patience, "the node", func() bool { _, err := os.Stat(n.ready); return err == nil })
	url, err := os.ReadFile(n.ready)
	if err != nil {
		t.Fatal(err)
	}
	_, n.addr, _ = strings.Cut(strings.TrimSpace(string(url)), "://")
	poll.Within(t, patience, "the address of the metrics", func() bool { // what it prints comes by another way than the file
		for line := range strings.Lines(n.Printed()) {
			if rest, ok := strings.CutPrefix(line, "metrics"); ok && strings.HasSuffix(line, "\n") {
				n.metrics = strings.TrimSpace(rest)
			}
		}
		return n.metrics != ""
	})
	for name := range n.scrape(t) {
		if _, rest, ok := strings.Cut(name, `pubsub_connects_total{domain="default",participant="`); ok {
			root, _, _ = strings.Cut(rest, `"`)
		}
	}
	if root == "" {
		t.Fatal("the node's participant has no metrics")
	}
}

var scraper = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// scrape reads all metrics by name and labels, as they stand in the text.
func (n *node) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	answer, err := scraper.Get(n.metrics)
	if err != nil {
		t.Fatalf("%v: %s", err, n.Printed())
	}
	defer answer.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 16<<20))
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if v, err := strconv.ParseFloat(lines.Text()[i+1:], 64); i > 0 && err == nil {
			all[lines.Text()[:i]] = v
		}
	}
	return all
}

// sum adds up the metrics of a name whose labels contain all the given texts.
func (n *node) sum(t *testing.T, name string, labels ...string) (total float64) {
	t.Helper()
next:
	for series, v := range n.scrape(t) {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue next
			}
		}
		total += v
	}
	return total
}

// grows runs an attack and demands that a metric of the node, given by its name and
// a label, counts at least so many of what it tried.
func (n *node) grows(t *testing.T, least float64, name, label string, attack func()) {
	t.Helper()
	before := n.sum(t, name, label)
	attack()
	got := 0.0
	poll.Within(t, patience, fmt.Sprintf("%s{%s} to grow by %v", name, label, least), func() bool {
		got = n.sum(t, name, label) - before
		return got >= least
	})
	t.Logf("%s{%s} grew by %v", name, label, got)
}

// memory returns a size of the process in bytes: VmRSS now, VmHWM the most ever.
func (n *node) memory(t *testing.T, which string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, which+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s of the node: has it ended? %s", which, n.Printed())
	return 0
}
