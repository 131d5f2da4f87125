package qosmutex

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/register/local"
	"padme/tests/proxy"
)

// tree is what a topic's members have said of their places, in the order of their names.
func tree(t *testing.T, said *messages) string {
	t.Helper()
	places := map[string]string{}
	for _, m := range said.now() {
		id := m.Levels[3]
		if len(m.Payload) == 0 {
			delete(places, id)
			continue
		}
		var member Member
		if err := json.Unmarshal(m.Payload, &member); err != nil || member.Participant != id || member.Topic != m.Levels[1] {
			t.Fatalf("%v says %s: %v", m.Levels, m.Payload, err)
		}
		text := fmt.Sprintf("%s %s of %s priority %d", id, member.Role, member.Root, member.Priority)
		if member.Candidate {
			text += " candidate"
		}
		if member.Parent != "" {
			text += " below " + member.Parent
		}
		places[id] = text
	}
	return strings.Join(slices.Sorted(maps.Values(places)), "; ")
}

// watchTree hears what is retained and then what changes.
func watchTree(t *testing.T, url, id string) (becomes func(want string)) {
	t.Helper()
	said := subscribe(t, join(t, url, id), "lock", "t", "member", "+")
	return func(want string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for tree(t, said) != want {
			if time.Now().After(deadline) {
				t.Fatalf("%s knows %q, want %q", id, tree(t, said), want)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// The tree can be seen by who comes late; who leaves is not in it any more, and a
// new root shows.
func TestMembersTellTheirPlaces(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	cable := proxy.Start(t, url)
	shared := WithRegister(local.Memory())
	open(t, join(t, cable.URL(), "root"), "t", Create(), shared, WithNodePriority(0))
	a := open(t, join(t, url, "a"), "t", shared, WithNodePriority(1))
	b := open(t, join(t, url, "b"), "t", shared, WithNodePriority(2))
	first := watchTree(t, url, "first")
	first("a member of root priority 1 candidate below root; b member of root priority 2 candidate below root; root root of root priority 0 candidate")
	cable.Cut()
	// The old root cannot take back what it said: its presence tells that it is dead.
	first("a root of a priority 1 candidate; b member of a priority 2 candidate below a; root root of root priority 0 candidate")
	late := watchTree(t, url, "late")
	late("a root of a priority 1 candidate; b member of a priority 2 candidate below a; root root of root priority 0 candidate")
	closeTopic(t, b)
	closeTopic(t, a)
	first("root root of root priority 0 candidate")
	watchTree(t, url, "later")("root root of root priority 0 candidate")
}

// What a broker without a memory has forgotten is said again, and what is not new
// is not said twice.
func TestMembersTellARestartedBroker(t *testing.T) {
	t.Parallel()
	broker := startEmbedded(t, "127.0.0.1:0")
	addr, url := broker.TCPAddr().String(), broker.URL()
	open(t, join(t, url, "root"), "t", Create(), WithResources("x"), WithNodePriority(0))
	a := open(t, join(t, url, "a"), "t")
	const both = "a member of root priority 100 below root; root root of root priority 0 candidate"
	watchTree(t, url, "watcher")(both)
	said := subscribe(t, a.p, "lock", "t", "member", "a")
	for range 20 {
		unlock(t, lock(t, a, "x"))
	}
	if all := said.now(); len(all) != 1 {
		t.Errorf("20 entries made a member say %d times where it stands", len(all)-1)
	}
	stopBroker(t, broker)
	startEmbedded(t, addr)
	watchTree(t, url, "late")(both)
}

// What a broker has forgotten is said again also by who notices nothing else. A member
// that leaves when it was about to do so takes its place back.
func TestMembersTellAgainAfterAReconnection(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	root := open(t, join(t, url, "root"), "t", Create(), WithNodePriority(0))
	a := open(t, join(t, url, "a"), "t")
	said := watchTree(t, url, "watcher")
	const both = "a member of root priority 100 below root; root root of root priority 0 candidate"
	said(both)
	forget := join(t, url, "forgetful")
	if err := forget.PublishRaw(pubsub.Main, []string{"lock", "t", "member", "root"}, nil, true); err != nil {
		t.Fatal(err)
	}
	said("a member of root priority 100 below root")
	root.reconnected(true)
	said(both)
	a.mu.Lock()
	a.standing.again = true
	a.mu.Unlock()
	closeTopic(t, a)
	said("root root of root priority 0 candidate")
}
