//go:build unix

package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/tests/address"
	"padme/tests/poll"
	"padme/tests/process"
)

// aclCast are the users of the tests by role; each is its own password. super may
// everything.
var (
	aclCast  = aclNames{nodes: []string{"alice", "bob"}, watchers: []string{"watch"}, clients: []string{"esp", "eve"}, gateways: []string{"bridge"}}
	aclUsers = slices.Concat(aclCast.nodes, aclCast.watchers, aclCast.clients, aclCast.gateways)
)

// aclRow is a topic of the contract below R, and who may. It is written by hand
// from docs/topics.md, as the oracle for the table in the code. Without reads,
// nobody of the contract writes it, and who reads it does not matter.
type aclRow struct {
	topic, writes, reads string
	noWill               bool // the embedded broker takes no will there
}

const (
	aclNodes = "alice bob bridge"
	aclAll   = "alice bob watch esp eve bridge"
)

var aclRows = []aclRow{
	{topic: "presence/alice", writes: "alice", reads: aclAll},
	{topic: "presence/watch"},
	{topic: "presence/esp"},
	{topic: "ask/alice", writes: "alice", reads: aclAll},
	{topic: "ask/watch"},
	{topic: "ep/t/bob/w1", writes: "bob", reads: aclAll},
	{topic: "ep/bob/w1"},
	{topic: "data/p/t/k/alice/w1", writes: "alice", reads: aclAll},
	{topic: "data/p/t/k/watch/w1"},
	{topic: "node/bob/alice", writes: "alice", reads: "bob"},
	{topic: "node/bob/bob", writes: "bob", reads: "bob"},
	{topic: "node/alice/esp"},
	{topic: "node/watch/bridge", writes: "bridge", reads: "watch"},
	{topic: "lock/crane/join/bob", writes: "bob", reads: aclAll},
	{topic: "lock/crane/join/eve"},
	{topic: "lock/crane/join/state"},
	{topic: "lock/crane/member/bob", writes: "bob", reads: aclAll},
	{topic: "lock/crane/member/eve"},
	{topic: "lock/crane/member/watch"},
	{topic: "lock/crane/member/state"},
	{topic: "lock/crane/r/state", writes: aclNodes, reads: aclAll, noWill: true},
	{topic: "lock/crane/events", writes: aclNodes, reads: aclAll, noWill: true},
	{topic: "lock/crane/view", writes: aclNodes, reads: aclAll, noWill: true},
	{topic: "lock/crane/client/esp/request", writes: "esp bridge", reads: "esp bridge"},
	{topic: "lock/crane/client/eve/answer/1", writes: "eve bridge", reads: "eve bridge"},
	{topic: "lock/crane/client/alice/request", writes: "alice bridge", reads: "alice bridge"},
	{topic: "lock/crane/client/watch/request", writes: "bridge"},
	{topic: "lock/crane/client/state"},
	{topic: "elsewhere/alice"},
}

func TestAccessListOfTheEmbeddedBroker(t *testing.T) {
	var users broker.Users
	add := func(role broker.Role, names ...string) {
		for _, name := range names {
			if err := users.Add(name, name); err != nil {
				t.Fatal(err)
			}
			if err := users.Grant(name, role); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(broker.Member, aclCast.nodes...)
	add(broker.Observer, aclCast.watchers...)
	add(broker.Client, aclCast.clients...)
	add(broker.Gateway, aclCast.gateways...)
	add(broker.Admin, "super")
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeWithin(b.Close) })
	tryAccess(t, b.TCPAddr().String(), true)
}

func TestAccessListOfMosquitto(t *testing.T) { tryAccess(t, startMosquitto(t), false) }

// TestMosquittoGateway: mosquitto grants every subscription, so who may serve clients there
// finds out by itself.
func TestMosquittoGateway(t *testing.T) {
	url, dir := "mqtt://"+startMosquitto(t), t.TempDir()
	for _, user := range []string{"alice", "bridge"} {
		if err := os.WriteFile(filepath.Join(dir, user), []byte(user), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := startNode(t, dir, url, "serve", "--user", "alice", "--password-file", "alice", "--ready-file", "served", "crane")
	if code := n.exit(t); code != exitRefused || !strings.Contains(n.Err.String(), "may not serve clients") || exists(filepath.Join(dir, "served")) {
		t.Errorf("exit code %d: %s", code, &n.Err)
	}
	startNode(t, dir, url, "serve", "--user", "bridge", "--password-file", "bridge", "--ready-file", "bridged", "crane")
	poll.Until(t, "the gateway hears clients", func() bool { return exists(filepath.Join(dir, "bridged")) })
}

// TestMosquittoDoctor: a watcher may not write to its own inbox there, and doctor needs no
// more than reading.
func TestMosquittoDoctor(t *testing.T) {
	url, dir := "mqtt://"+startMosquitto(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "watch"), []byte("watch"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, dir, url, "--timeout", "15s", "doctor", "--user", "watch", "--password-file", "watch")
	if code := n.exit(t); code != 0 || !strings.Contains(n.Out.String(), "not asked: ") {
		t.Errorf("exit code %d: %s%s", code, &n.Out, &n.Err)
	}
}

// startMosquitto runs mosquitto with the users and rules of the tests and returns its
// address.
func startMosquitto(t *testing.T) string {
	t.Helper()
	program := process.Need(t, "apt-get install mosquitto", "mosquitto", "/usr/sbin/mosquitto")
	dir := t.TempDir()
	list, err := os.Create(filepath.Join(dir, "acl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := printMosquitto(list, "padme", "default", &aclCast); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(list, "\nuser super\ntopic readwrite #\n")
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	for i, name := range append([]string{"super"}, aclUsers...) {
		args := []string{"-b", filepath.Join(dir, "passwords"), name, name}
		if i == 0 {
			args = append([]string{"-c"}, args...)
		}
		if out, err := exec.Command("mosquitto_passwd", args...).CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_passwd: %v\n%s", err, out)
		}
	}
	addr := address.Free(t)
	_, port, _ := net.SplitHostPort(addr)
	config := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous false\npassword_file %s/passwords\nacl_file %s/acl\nset_tcp_nodelay true\n", port, dir, dir)
	if os.Getuid() == 0 {
		config += "user root\n" // it could not read our files as another
	}
	path := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	process.Start(t, process.Options{}, program, "-c", path)
	poll.Until(t, "mosquitto listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr
}

// tryAccess has every user write every row, alive and by its last will, and read
// every row, retained and live, and compares with the table both ways.
func tryAccess(t *testing.T, addr string, embedded bool) {
	const root = "padme/v1/default/"
	super, err := aclConnect(addr, "super", "")
	if err != nil {
		t.Fatal(err)
	}
	defer super.end()
	super.subscribe(t, "#")
	for _, user := range aclUsers {
		c, err := aclConnect(addr, user, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range aclRows {
			c.publish(t, root+row.topic, "write "+user+" "+row.topic, false)
		}
		c.end()
		for _, row := range aclRows {
			if c, err := aclConnect(addr, user, root+row.topic); err == nil {
				_ = c.conn.(*net.TCPConn).CloseWrite() // without a farewell: the broker sends the will
			}
		}
	}
	may := func(names, user string) bool { return slices.Contains(strings.Fields(names), user) }
	var want []string
	for _, row := range aclRows {
		for _, user := range aclUsers {
			if may(row.writes, user) {
				want = append(want, "write "+user+" "+row.topic)
				if !embedded || !row.noWill {
					want = append(want, "will "+user+" "+row.topic)
				}
			}
		}
	}
	super.settle(t, super, want)
	compareAccess(t, "written", super.inbox(), want)

	readable := slices.DeleteFunc(slices.Clone(aclRows), func(r aclRow) bool { return r.reads == "" })
	for _, row := range readable {
		super.publish(t, root+row.topic, "kept "+row.topic, true)
	}
	for _, user := range aclUsers {
		c, err := aclConnect(addr, user, "")
		if err != nil {
			t.Fatal(err)
		}
		c.subscribe(t, "#")
		want = nil
		for _, row := range readable {
			super.publish(t, root+row.topic, "live "+row.topic, false)
			if may(row.reads, user) {
				want = append(want, "kept "+row.topic, "live "+row.topic)
			}
		}
		c.settle(t, super, want)
		compareAccess(t, "read by "+user, c.inbox(), want)
		c.end()
	}
}

func compareAccess(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: refused, but allowed: %s", what, w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: allowed, but refused: %s", what, g)
		}
	}
}

// aclClient is a client with everything that it was sent.
type aclClient struct {
	paho.Client
	conn net.Conn
	mu   sync.Mutex
	got  []string
}

// aclConnect connects a user; its will is sent to a topic if there is one.
func aclConnect(addr, user, will string) (*aclClient, error) {
	c := &aclClient{}
	o := paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(user + "-" + rand.Text()).
		SetUsername(user).SetPassword(user).SetAutoReconnect(false).SetProtocolVersion(4).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := net.Dial("tcp", addr)
			c.conn = conn
			return conn, err
		}).
		SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.got = append(c.got, string(m.Payload()))
		})
	if will != "" {
		o.SetWill(will, "will "+user+" "+strings.TrimPrefix(will, "padme/v1/default/"), 1, false)
	}
	c.Client = paho.NewClient(o)
	token := c.Connect()
	token.Wait()
	return c, token.Error()
}

func (c *aclClient) end() { c.Disconnect(100) }

func (c *aclClient) publish(t *testing.T, topic, payload string, retain bool) {
	t.Helper()
	token := c.Publish(topic, 1, retain, payload)
	if !token.WaitTimeout(patienceInTests) || token.Error() != nil {
		t.Fatalf("publishing to %s: %v", topic, token.Error())
	}
}

func (c *aclClient) subscribe(t *testing.T, filter string) {
	t.Helper()
	token := c.Subscribe(filter, 1, nil)
	if !token.WaitTimeout(patienceInTests) || token.Error() != nil {
		t.Fatalf("subscribing to %s: %v", filter, token.Error())
	}
}

// inbox is what came, without the markers of settle.
func (c *aclClient) inbox() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := slices.Clone(c.got)
	return slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "marker ") || s == "" })
}

// settle waits until what is wanted has come, or long enough, and then for what
// super publishes last: nothing that was sent before is on its way any more.
func (c *aclClient) settle(t *testing.T, super *aclClient, want []string) {
	t.Helper()
	has := func(s string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Contains(c.got, s)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && slices.ContainsFunc(want, func(w string) bool { return !has(w) }); {
		time.Sleep(10 * time.Millisecond)
	}
	marker := "marker " + rand.Text()
	super.publish(t, "padme/v1/default/lock/marker/view", marker, false)
	for end := time.Now().Add(patienceInTests); !has(marker); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the marker has not come")
		}
	}
}

func TestNamesThatMosquittoCannotHold(t *testing.T) {
	for _, n := range []aclNames{
		{nodes: []string{"a b"}},
		{clients: []string{"a+"}},
		{watchers: []string{"a", "a"}},
		{nodes: []string{"x"}, gateways: []string{"x"}},
		{nodes: []string{""}},
		{nodes: []string{"state"}},
		{nodes: []string{"a\ntopic readwrite #"}},
	} {
		if err := n.check(); err == nil {
			t.Errorf("%v was accepted", n)
		}
	}
}
