package broker

import (
	"testing"
	"time"
)

// An MQTT 5 client that may not read a lock message, although it is subscribed to all, does not
// have it go through mochi. Once it may, it does.
func TestWhoMayNotReadAMessageHasNoSayInItsWay(t *testing.T) {
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
	subscribe := []byte{0x82, 7, 0, 1, 0, 0, 1, '#', 0}
	if _, err := c.Write(append(five, subscribe...)); err != nil {
		t.Fatal(err)
	}
	const topic = "padme/v1/default/node/alice/bob"
	subscribed := func() bool { return len(b.server.Topics.Subscribers(topic).Subscriptions) == 1 }
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
	if w := b.flow.direct.wayOf([]byte(topic)); !w.mochi || len(w.to) != 1 {
		t.Errorf("of who may read it: mochi %v, to %d", w.mochi, len(w.to))
	}
}
