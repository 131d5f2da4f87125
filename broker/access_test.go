package broker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"padme/broker"
	"padme/tests/poll"
)

// cast are the users of the tests; the password is the name.
func cast(t *testing.T) *broker.Users {
	t.Helper()
	var text strings.Builder
	text.WriteString("# the cast\n\n")
	for _, line := range []string{"alice", "bob", "crane 7/east", "watch:observer", "bridge:gateway", "esp:client", "root:admin"} {
		name, role, _ := strings.Cut(line, ":")
		hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(name + ":" + string(hash) + ":" + role + "\n")
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := broker.LoadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWhoMayWrite(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	root := connect(t, inProcess(b), as("root", "root"))
	root.subscribe("#", 1)
	const r = "padme/v1/default/"
	for _, tc := range []struct{ topic, may, mayNot string }{
		{r + "data/p/t/k/alice/w", "alice root", "bob watch bridge"},
		{r + "data/p/t/k/alice", "root", "alice"},
		{r + "data/p/t/k/alice/w/more", "root", "alice"},
		{r + "data/p/t/k/crane%207%2Feast/w", "crane 7/east", "alice"},
		{r + "data/p/t/k/crane%207%2feast/w", "crane 7/east", "alice"},
		{r + "data/p//k/alice/w", "root", "alice"},
		{r + "presence/alice", "alice", "bob watch bridge"},
		{r + "presence/alic%65", "alice", "bob"},
		{r + "presence/%zz", "root", "alice"},
		{r + "ep/t/alice/1", "alice", "bob"},
		{r + "ep/bob/alice/1", "alice", "bob"},
		{r + "ep/alice/1", "root", "alice"},
		{r + "ep/t/alice", "root", "alice"},
		{r + "ep/t/alice/1/more", "root", "alice"},
		{r + "node/bob/alice", "alice", "bob watch"},
		{r + "node/alice/alice", "alice", "bob"},
		{r + "lock/t/146.52/state", "alice bob bridge", "watch"},
		{r + "lock/t/events", "alice bob bridge", "watch"},
		{r + "lock/t/view", "alice bob", "watch"},
		{r + "lock/t/view/x", "root", "alice"},
		{r + "lock/t/join/alice", "alice", "bob bridge watch"},
		{r + "lock/t/join/state", "root", "alice"},
		{r + "lock/t/member/alice", "alice", "bob bridge watch"},
		{r + "lock/t/member/state", "root", "alice"},
		{r + "lock/t/client/alice/request", "alice bridge", "bob watch"},
		{r + "lock/t/client/alice", "root", "alice bridge"},
		{r + "lock/t/client/esp/request", "esp bridge", "alice watch"},
		{r + "lock/t/r/state", "alice", "esp"},
		{r + "lock/t/events", "alice", "esp"},
		{r + "lock/t/view", "alice", "esp"},
		{r + "lock/t/join/esp", "root", "esp"},
		{r + "presence/esp", "root", "esp"},
		{r + "node/alice/esp", "root", "esp"},
		{r + "data/p/t/k/esp/w", "root", "esp"},
		{r + "unknown/alice", "root", "alice bridge"},
		{"padme/v2/default/presence/alice", "root", "alice"},
		{"elsewhere", "root", "alice bridge watch"},
		{"$SYS/x", "", "alice root"},
	} {
		for _, user := range split(tc.may) {
			root.drain()
			c := connect(t, inProcess(b), as(user, user))
			c.publish(tc.topic, "yes", 1, false)
			if got := root.receive(1); got[0] != "yes" {
				t.Errorf("%s may not write %s", user, tc.topic)
			}
		}
		for _, user := range split(tc.mayNot) {
			root.drain()
			c := connect(t, inProcess(b), as(user, user))
			c.publish(tc.topic, "no", 1, true) // acknowledged, or this fails
			c.publish(tc.topic, "no", 0, true)
			root.publish("marker", "end", 1, false)
			if got := root.receive(1); got[0] != "end" {
				t.Errorf("%s may write %s", user, tc.topic)
			}
			if !c.IsConnected() {
				t.Errorf("%s was disconnected for writing %s", user, tc.topic)
			}
		}
	}
}

// split knows the one name with a space in it.
func split(names string) []string {
	if strings.HasPrefix(names, "crane") {
		return []string{names}
	}
	return strings.Fields(names)
}

func (c *client) drain() {
	c.mu.Lock()
	c.inbox = nil
	c.mu.Unlock()
}

func TestWhoMayReadWhat(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	root := connect(t, inProcess(b), as("root", "root"))
	const r = "padme/v1/default/"
	const (
		inbox  = r + "node/alice/bob"
		answer = r + "lock/t/client/alice/answer"
		data   = r + "data/p/t/k/bob/w"
		join   = r + "lock/t/join/bob"
		other  = "elsewhere/x"
	)
	for _, tc := range []struct {
		user, filter string
		reads        []string // nil: the filter is refused
	}{
		{"alice", "#", []string{inbox, answer, data, join}},
		{"bob", "#", []string{data, join}},
		{"bob", "+/+/+/#", []string{data, join}},
		{"bob", "padme/#", []string{data, join}},
		{"bob", r + "node/#", []string{}},
		{"bob", r + "node/+/bob", []string{}},
		{"bob", r + "+/alice/bob", []string{}},
		{"bob", r + "lock/+/client/#", []string{}},
		{"bob", inbox, nil},
		{"bob", r + "node/alice/#", nil},
		{"bob", "$share/g/" + r + "node/alice/#", nil},
		{"bob", "+/v1/+/node/alice/+", nil},
		{"bob", r + "node/%61lice/+", nil},
		{"bob", answer, nil},
		{"bob", r + "lock/t/client/alice/#", nil},
		{"bob", "elsewhere/#", nil},
		{"bob", "$SYS/#", nil},
		{"bob", "padme", nil},
		{"alice", r + "node/alice/#", []string{inbox}},
		{"alice", "$share/g/" + r + "node/alice/#", []string{inbox}},
		{"bridge", r + "lock/+/client/#", []string{answer}},
		{"bridge", "#", []string{answer, data, join}},
		{"watch", "#", []string{data, join, other}},
		{"watch", "elsewhere/#", []string{other}},
		{"watch", r + "node/alice/#", nil},
		{"root", "#", []string{inbox, answer, data, join, other}},
		{"root", "a+/b", nil},
		{"root", "#/b", nil},
	} {
		for _, retained := range []bool{false, true} {
			if retained && tc.reads != nil && strings.HasPrefix(tc.filter, "$share") {
				continue // a shared subscription gets no retained messages
			}
			c := connect(t, inProcess(b), as(tc.user, tc.user))
			publish := func() {
				for _, topic := range []string{inbox, answer, data, join, other} {
					root.publish(topic, topic, 1, retained)
				}
			}
			if retained {
				publish()
			}
			if granted := c.granted(tc.filter, 1) <= 1; granted != (tc.reads != nil) {
				t.Errorf("%s subscribes to %s: granted %v", tc.user, tc.filter, granted)
				continue
			}
			if !retained {
				publish()
			}
			c.subscribe(r+"lock/t/events", 1)
			c.drainRefused(tc.user, root, r+"lock/t/events")
			got := slices.DeleteFunc(c.payloads(), func(s string) bool { return s == "end" })
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.reads))
			if !slices.Equal(got, want) {
				t.Errorf("%s subscribed to %s, retained %v, reads\n%q, want\n%q", tc.user, tc.filter, retained, got, want)
			}
			c.Disconnect(10)
			for _, topic := range []string{inbox, answer, data, join, other} {
				root.publish(topic, "", 1, true)
			}
		}
	}
}

// drainRefused waits for a message that comes after all others.
func (c *client) drainRefused(user string, root *client, marker string) {
	c.t.Helper()
	root.publish(marker, "end", 1, false)
	poll.UntilOr(c.t, func() bool { return slices.Contains(c.payloads(), "end") }, func() string { return user + ": no marker" })
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	for _, o := range []option{as("alice", "bob"), as("nobody", "nobody"), as("alice", ""), as("", ""), as("alice", strings.Repeat("x", 100))} {
		if _, err := dial(t, inProcess(b), o); err == nil || !strings.Contains(err.Error(), "not Authorized") {
			t.Errorf("error %v", err)
		}
	}
	connect(t, inProcess(b), as("alice", "alice"))
	connect(t, inProcess(b), as("alice", "alice")) // from the cache
	if _, err := dial(t, inProcess(b), as("alice", "bob")); err == nil {
		t.Error("a wrong password after a right one")
	}
}

// mochi sends every will to anywhere.
func TestWills(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	root := connect(t, inProcess(b), as("root", "root"))
	root.subscribe("#", 1)
	for _, topic := range []string{
		"padme/v1/default/presence/bob", "elsewhere", "padme/v1/default/node/+/alice",
		"padme/v1/default/lock/t/r/state", "padme/v1/default/lock/t/events", "padme/v1/default/lock/t/view", // she may write them, alive
	} {
		if _, err := dial(t, inProcess(b), as("alice", "alice"), will(topic, "dead", true)); err == nil {
			t.Errorf("a will on %s was accepted", topic)
		}
	}
	conn := raw(t, b)
	conn.connect("alice-raw", "alice", "padme/v1/default/presence/alice", "dead")
	conn.Close()
	if got := root.receive(1); got[0] != "dead" {
		t.Errorf("received %q", got)
	}
}

// bcrypt is slow on purpose; clients that come back must not queue up for it.
func TestReconnectionIsQuick(t *testing.T) {
	var users broker.Users
	if err := users.Add("alice", "secret"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := users.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := broker.LoadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, broker.Config{Users: loaded})
	begin := time.Now()
	connect(t, inProcess(b), as("alice", "secret"))
	first := time.Since(begin)
	begin = time.Now()
	for range 20 {
		connect(t, inProcess(b), as("alice", "secret"))
	}
	if again := time.Since(begin); again > 10*first {
		t.Errorf("the first connection took %v, the next 20 took %v", first, again)
	}
}

// With one name space of client ids bob would get what waits for alice.
func TestSessionsArePrivate(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	alice := connect(t, inProcess(b), as("alice", "alice"), session("same"))
	alice.subscribe("padme/v1/default/node/alice/#", 1)
	alice.Disconnect(50)
	bob := connect(t, inProcess(b), as("bob", "bob"))
	bob.publish("padme/v1/default/node/alice/bob", "for alice", 1, false)
	thief := connect(t, inProcess(b), as("bob", "bob"), session("same"))
	thief.subscribe("padme/v1/default/lock/t/events", 1)
	bob.publish("padme/v1/default/lock/t/events", "end", 1, false)
	if got := thief.receive(1); got[0] != "end" {
		t.Errorf("bob has received %q", got)
	}
	back := connect(t, inProcess(b), as("alice", "alice"), session("same"))
	if got := back.receive(1); got[0] != "for alice" {
		t.Errorf("alice has received %q", got)
	}
}

func TestRemovedUserGetsNothing(t *testing.T) {
	users := cast(t)
	b := start(t, broker.Config{Users: users})
	bob := connect(t, inProcess(b), as("bob", "bob"))
	bob.subscribe("#", 1)
	watch := connect(t, inProcess(b), as("watch", "watch"))
	watch.subscribe("#", 1)
	if !users.Remove("bob") || users.Remove("bob") {
		t.Error("Remove")
	}
	alice := connect(t, inProcess(b), as("alice", "alice"))
	bob.publish("padme/v1/default/lock/t/events", "from bob", 1, false)
	alice.publish("padme/v1/default/lock/t/events", "from alice", 1, false)
	if got := watch.receive(1); got[0] != "from alice" {
		t.Errorf("received %q", got)
	}
	if got := bob.payloads(); len(got) > 0 {
		t.Errorf("bob has received %q", got)
	}
}

// A user may ask what its role is, and hears nothing else.
func TestUsersAreToldTheirRole(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	for name, role := range map[string]string{"alice": "member", "root": "admin", "watch": "observer", "esp": "client", "bridge": "gateway"} {
		c := connect(t, inProcess(b), as(name, name))
		c.subscribe("padme/v1/default/role", 1)
		if got := c.receive(1); got[0] != role {
			t.Errorf("%s is told %q", name, got)
		}
	}
	free := start(t, broker.Config{})
	c := connect(t, inProcess(free))
	c.subscribe("padme/v1/default/role", 1)
	c.subscribe("x", 1)
	c.publish("x", "nobody has a role here", 1, false)
	if got := c.receive(1); got[0] != "nobody has a role here" {
		t.Errorf("told %q", got)
	}
}

// Who shares a subscription with those who may not read all of it receives what it would alone.
func TestASharedSubscriptionHasNoHoles(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	const filter = "$share/work/padme/v1/default/lock/crane/client/+/answer"
	root, watch, esp := connect(t, inProcess(b), as("root", "root")), connect(t, inProcess(b), as("watch", "watch")), connect(t, inProcess(b), as("esp", "esp"))
	for _, c := range []*client{root, watch, esp} {
		c.subscribe(filter, 1)
	}
	bridge := connect(t, inProcess(b), as("bridge", "bridge"))
	for i := range 50 {
		bridge.publish("padme/v1/default/lock/crane/client/alice/answer", fmt.Sprint(i), 1, false)
	}
	root.receive(50)
	if got := append(watch.payloads(), esp.payloads()...); len(got) > 0 {
		t.Errorf("others have received %q", got)
	}
}
