package broker

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
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
	for name, role := range map[string]Role{"a b": Member, "watch": Observer, "esp": Client, "root": Admin, "bridge": Gateway} {
		users.accounts[name] = &account{hash: []byte(hashed(t, name)), role: role}
	}
	b := started(t, Config{Users: users})
	d := b.flow.direct
	topics := map[string]string{ // by owner
		"a b": "padme/v1/default/node/a%20b/c", "watch": "padme/v1/default/node/watch/c", "bob": "padme/v1/default/node/bob/c",
		"esp": "padme/v1/default/lock/crane/client/esp/request",
	}
	all := []string{"a b", "watch", "bob", "esp"}
	check := func(user, filter string, changes []string) {
		t.Helper()
		cl := b.server.NewClient(nil, "", user, false)
		cl.Properties.Username = []byte(user)
		for _, subscribed := range []func(){
			func() { d.OnSubscribed(cl, packets.Packet{Filters: packets.Subscriptions{{Filter: filter}}}, nil) },
			func() { d.OnUnsubscribed(cl, packets.Packet{Filters: packets.Subscriptions{{Filter: filter}}}) },
		} {
			before := map[string]*way{}
			for owner, topic := range topics {
				before[owner] = d.wayOf([]byte(topic))
			}
			subscribed()
			for owner, topic := range topics {
				if changed, want := d.wayOf([]byte(topic)) != before[owner], slices.Contains(changes, owner); changed != want {
					t.Errorf("a subscription of %s to %s: the way to %s is looked up again: %v, want %v", user, filter, owner, changed, want)
				}
			}
		}
	}
	const inbox = "padme/v1/default/node/bob/+"
	for user, changes := range map[string][]string{"a b": {"a b"}, "watch": {"watch"}, "esp": {"esp"}, "root": all, "bridge": all, "nobody": nil} {
		check(user, "#", changes)
		if user != "bridge" {
			check(user, inbox, changes)
		}
	}
	check("bridge", inbox, nil)
	d.access.users = nil
	check("", inbox, all)
	d.access.users = users
}

// The owner of a topic that goes past mochi alone may read it, but for those who serve clients.
func TestOwnersOfTopics(t *testing.T) {
	d := &direct{prefix: []byte("padme/v1/")}
	for topic, owner := range map[string]string{
		"padme/v1/d/node/a/b": "a", "padme/v1/d/node/a%2Fb/c": "a/b", "padme/v1/d/node/a": "",
		"padme/v1/d/lock/crane/client/esp/request": "esp", "padme/v1/d/lock/crane/client/a%2Fb/answer": "a/b",
		"padme/v1/d/lock/client/esp/request": "", "padme/v1/d/lock/crane/client/esp": "", "padme/v1/d/lock/crane/join/a/b": "",
		"padme/v1/d/presence/a/b": "", "padme/v1/d": "", "padme/v1/d/lock": "", "other/d/node/a/b": "",
	} {
		if got, _ := d.ownerOf([]byte(topic)); string(got) != owner || (got == nil) != (owner == "") {
			t.Errorf("%s: %q, want %q", topic, got, owner)
		}
	}
}

// The subscribers of a long topic are looked up each time: thousands of those would take much memory.
func TestLongTopicsAreNotRemembered(t *testing.T) {
	b := started(t, Config{})
	d := b.flow.direct
	for _, size := range []int{wayBytes - 1, wayBytes, wayBytes + 1} {
		d.wayOf([]byte("padme/v1/d/node/a/" + strings.Repeat("x", size-len("padme/v1/d/node/a/"))))
	}
	if n := len(d.ways.of["a"]); n != 2 {
		t.Errorf("%d of three topics are remembered, one is too long", n)
	}
}

// Of one owner, and of all, as many topics are remembered as may be, and none of those that left.
func TestWaysAreBounded(t *testing.T) {
	var w ways
	for i := range 2 * ownWays {
		w.keep("a", &way{topic: fmt.Sprint(i)})
		w.keep("a", &way{topic: fmt.Sprint(i)})
	}
	if len(w.of["a"]) != ownWays || w.size != ownWays {
		t.Errorf("%d of one owner, %d in all", len(w.of["a"]), w.size)
	}
	for i := range 2 * maxWays {
		w.keep(fmt.Sprint(i), &way{topic: "t"})
	}
	if n := len(w.of); w.size > maxWays || w.size < maxWays-ownWays || n == 0 {
		t.Errorf("%d of %d owners", w.size, n)
	}
	for owner := range w.of {
		w.changedOf(owner)
	}
	if w.size != 0 || len(w.of) != 0 {
		t.Errorf("%d are left", w.size)
	}
}

// What else a server of clients subscribes to changes the way of no message.
func TestWhoServesClients(t *testing.T) {
	d := &direct{prefix: []byte("padme/v1/")}
	for filter, may := range map[string]bool{
		"#": true, "padme/v1/d/lock/+/client/+/request": true, "padme/v1/+/+/+/+/+/+": true, "$share/g/padme/v1/d/lock/t/client/c/request": true,
		"padme/v1/d/lock/#": true, "padme/v1/d/lock/t/+/state": false, "padme/v1/d/lock/t/events": false, "padme/v1/d/lock/t/member/+": false,
		"padme/v1/d/node/a/+": false, "": false,
	} {
		if d.mayServe(filter) != may {
			t.Errorf("%q: %v", filter, !may)
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

// All that a client asks goes one way: past mochi, unless somebody wants what is published at QoS 1
// so. Answers are at QoS 0, however they are subscribed to, and who has ended has no say.
func TestWhatAClientAsksGoesOneWay(t *testing.T) {
	const request, answer = "padme/v1/d/lock/crane/client/esp/request", "padme/v1/d/lock/crane/client/esp/answer"
	b := observed(t)
	want := func(when string, readers int, mochi bool) {
		t.Helper()
		if w := b.flow.direct.wayOf([]byte(request)); w.mochi != mochi || len(w.to) != readers {
			t.Errorf("%s requests have %d readers, by mochi: %v", when, len(w.to), w.mochi)
		}
		if b.flow.direct.wayOf([]byte(answer)).mochi {
			t.Errorf("%s answers go by mochi", when)
		}
	}
	want("at first", 0, false)
	gate := logIn(t, b, "gate")
	gate.send(0x82, "\x00\x01", lengthened("padme/v1/d/lock/+/client/+/request"), "\x00")
	gate.wants(0x90, "\x00\x01\x00")
	want("of a gateway", 1, false)
	esp := logIn(t, b, "esp")
	esp.send(0x82, "\x00\x01", lengthened("padme/v1/d/lock/+/client/esp/#"), "\x01")
	esp.wants(0x90, "\x00\x01\x01")
	want("that their client reads, too,", 2, true)

	cl := b.flow.direct.wayOf([]byte(request)).to[0]
	cl.Stop(packets.CodeDisconnect)
	b.flow.direct.ways.changes.Add(1) // before mochi has seen to it
	if w := b.flow.direct.wayOf([]byte(request)); len(w.to) != 1 {
		t.Errorf("%d readers of two, of whom one has ended", len(w.to))
	}
}

// A long packet that is being written leaves room for lock messages behind it.
func TestALongPacketLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		b := newSendBuffer(here)
		charged := int64(0)
		b.charges(func(delta int64) { charged += delta })
		b.serves(func() {}, func(error) {}, 1<<20)
		if _, err := b.write(make([]byte, 1<<19)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // nobody reads it
		if writes, bytes := b.holds(); writes != 0 || bytes != 0 || charged != 1<<19 {
			t.Errorf("%d writes of %d bytes wait, %d bytes are charged", writes, bytes, charged)
		}
		go func() { _, _ = io.Copy(io.Discard, there) }()
		synctest.Wait()
		if charged != 0 {
			t.Errorf("%d bytes are charged at the end", charged)
		}
		_ = here.Close()
		b.writer.Wait()
	})
}

// The will of a connection that has stalled is not awaited for long.
func TestAStalledFormerIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := &conn{former: &conn{said: make(chan struct{})}}, time.Now()
		c.awaitFormer()
		if took := time.Since(began); took != formerMayTake || c.former != nil {
			t.Errorf("it took %v", took)
		}
	})
}

// A connection that has taken a session over is served once the former one has sent its will.
func TestTheWillOfTheFormerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Limits{}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		defer func() { _, _ = here.Close(), there.Close() }()
		c, former := newConn(here, l), newConn(there, l)
		c.former = former
		d := &direct{access: &access{}}
		go (&flow{direct: d}).OnSessionEstablished(mqtt.New(nil).NewClient(c, "", "id", false), packets.Packet{})
		synctest.Wait()
		if c.established() {
			t.Error("it does not wait")
		}
		if d.ways.changes.Load() == 0 {
			t.Error("messages go to the former meanwhile")
		}
		former.sayLast()
		synctest.Wait()
		if !c.established() {
			t.Error("it waits on")
		}
	})
}
