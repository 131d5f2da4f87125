package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// An MQTT 5 client that may not read a lock message, although it is subscribed to all, does not
// have it go through mochi, nor does one with a shared subscription. Once it may, it does.
func TestWhoMayNotReadAMessageHasNoSayInItsWay(t *testing.T) {
	t.Run("alone", func(t *testing.T) { testNoSay(t, "#") })
	t.Run("shared", func(t *testing.T) { testNoSay(t, "$share/g/#") })
}

func testNoSay(t *testing.T, filter string) {
	users := alone(t)
	for name, role := range map[string]Role{"bob": Member, "watch": Observer} {
		users.accounts[name] = &account{hash: []byte(hashed(t, name)), role: role}
	}
	b := started(t, Config{Users: users})
	c, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	five := hello("watch", "watch")
	five = append(five[:12:12], append([]byte{0}, five[12:]...)...) // no properties
	five[1]++
	five[8] = 5
	subscribe := append([]byte{0x82, byte(6 + len(filter)), 0, 1, 0, 0, byte(len(filter))}, filter...)
	subscribe = append(subscribe, 0)
	if _, err := c.Write(append(five, subscribe...)); err != nil {
		t.Fatal(err)
	}
	const topic = "padme/v1/default/node/alice/bob"
	subscribed := func() bool {
		found := b.server.Topics.Subscribers(topic)
		return len(found.Subscriptions)+len(found.Shared) == 1
	}
	for deadline := time.Now().Add(halfOfPatience); !subscribed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not subscribed")
		}
	}
	if w := b.flow.direct.wayOf([]byte(topic)); w.mochi || len(w.to) != 0 {
		t.Errorf("mochi %v, to %d", w.mochi, len(w.to))
	}
	if err := users.Grant("watch", Admin); err != nil {
		t.Fatal(err)
	}
	if w := b.flow.direct.wayOf([]byte(topic)); !w.mochi {
		t.Error("who may read it is not sent it by mochi")
	}
}

// Subscriptions of a user change the way of messages to its own inbox, however its name is written in
// the topic, and that of no other; those of an administrator, who may read all, change all.
func TestSubscriptionsChangeTheWayOfOwnMessagesOnly(t *testing.T) {
	users := alone(t)
	for name, role := range map[string]Role{"a b": Member, "watch": Observer, "root": Admin} {
		users.accounts[name] = &account{hash: []byte(hashed(t, name)), role: role}
	}
	b := started(t, Config{Users: users})
	d := b.flow.direct
	topics := map[string]string{ // by owner
		"a b": "padme/v1/default/node/a%20b/c", "watch": "padme/v1/default/node/watch/c", "bob": "padme/v1/default/node/bob/c",
	}
	for user, changes := range map[string][]string{"a b": {"a b"}, "watch": {"watch"}, "root": {"a b", "watch", "bob"}, "nobody": nil} {
		cl := b.server.NewClient(nil, "", user, false)
		cl.Properties.Username = []byte(user)
		before := map[string]*way{}
		for owner, topic := range topics {
			before[owner] = d.wayOf([]byte(topic))
		}
		d.OnSubscribed(cl, packets.Packet{}, nil)
		for owner, topic := range topics {
			if changed, want := d.wayOf([]byte(topic)) != before[owner], slices.Contains(changes, owner); changed != want {
				t.Errorf("a subscription of %s: the way to %s is looked up again: %v, want %v", user, owner, changed, want)
			}
		}
	}
}

// A publication is charged by its time alone unless it is of locks.
func TestTopicsOfLocksAreKnown(t *testing.T) {
	d := &direct{prefix: []byte("padme/v1/")}
	for topic, of := range map[string]bool{
		"padme/v1/d/node/a/b": true, "padme/v1/d/lock/crane/view": true, "padme/v1/d/data/p/t/k/a/1": false,
		"padme/v1/d/presence/a": false, "padme/v1/lock/x": false, "other/lock/x": false, "padme/v1/d": false,
	} {
		if d.isOfLocks([]byte(topic)) != of {
			t.Errorf("%s: of locks: %v", topic, !of)
		}
	}
}
