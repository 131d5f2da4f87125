package broker

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Whoever retains a message does not wait until one that has subscribed has its turn again.
func TestOthersGoOnWithoutTheTreeLocked(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	_, end := newPipe()
	c := newConn(end, b.cfg.Limits)
	cl := b.server.NewClient(c, "", "a", false)
	for range 100 { // the race detector has goroutines run in any order
		b.guard.lock(c)
		free := make(chan bool, 1)
		go func() {
			got := b.guard.tree.TryLock()
			if got {
				b.guard.tree.Unlock()
			}
			free <- got
		}()
		for _, h := range b.hooks {
			if h.Provides(mqtt.OnPacketProcessed) {
				h.OnPacketProcessed(cl, packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}}, nil)
			}
		}
		select {
		case got := <-free:
			if !got {
				t.Error("the tree was locked")
			}
			return
		default:
			<-free
		}
	}
	t.Error("no other goroutine was let on")
}

// The node in the process answers hundreds, and goes on while they have their turns.
func TestNodeNeedNotWaitForATurnOfEach(t *testing.T) {
	b := observed(t)
	peer, far := net.Pipe()
	defer peer.Close()
	_, near := newPipe()
	user, node := newConn(b.door.admit(far), b.cfg.Limits), newConn(near, b.cfg.Limits)
	for i := range 2 * yieldEvery {
		if node.hadTurn(packets.Publish, 100) {
			t.Errorf("the node waits after %d packets", i+1)
		}
		if had := user.hadTurn(packets.Publish, 100); had != ((i+1)%yieldEvery == 0) {
			t.Errorf("after %d packets of a user it is %v that others have a turn", i+1, had)
		}
	}
	if !node.hadTurn(packets.Subscribe, 0) {
		t.Error("nobody has a turn after a search among the subscriptions")
	}
}

// While observers have all the turns that they can have, others do not wait.
func TestObserversWaitForObservers(t *testing.T) {
	b := observed(t)
	waitsAlone(t, b.observers, logIn(t, b, "watch"), logIn(t, b, "alice"), logIn(t, b, "esp"))
}

// An observer that waits for a turn, or has one, and leaves does not hold the others up.
func TestATurnEndsWithItsConnection(t *testing.T) {
	b := observed(t)
	watch, look := logIn(t, b, "watch"), logIn(t, b, "look")
	give := takeAll(t, b.observers)
	watch.send(ping)
	look.send(ping)
	watch.nothing()
	_ = watch.Close()
	give()
	look.wants(pong, "")
	for range runtime.GOMAXPROCS(0) { // more than there are turns
		c := dialed(t, b)
		c.logIn("watch", 0x04, lengthened("t"), lengthened("a will, which it may not leave"))
		c.wants(0x20, "\x00\x05")
	}
	look.send(ping)
	look.wants(pong, "")
}

// An observer that does not read what it has asked for has no turn meanwhile.
func TestWhoDoesNotReadHasNoTurn(t *testing.T) {
	t.Run("of what was retained", func(t *testing.T) { testNotReading(t, true) })
	t.Run("of what comes", func(t *testing.T) { testNotReading(t, false) })
}

func testNotReading(t *testing.T, retained bool) {
	b := observed(t)
	alice, look := logIn(t, b, "alice"), logIn(t, b, "look")
	var slow []plain
	subscribe := func() {
		for range runtime.GOMAXPROCS(0) { // more than there are turns
			c := logIn(t, b, "watch")
			_ = c.Conn.(*net.TCPConn).SetReadBuffer(1024)
			c.send(0x82, "\x00\x01", lengthened("padme/#"), "\x00")
			c.wants(0x90, "\x00\x01\x00")
			slow = append(slow, c)
		}
	}
	if !retained {
		subscribe()
	}
	load := strings.Repeat("x", 500_000)
	for i := range 40 { // more than the kernel and the broker take at once
		alice.send(0x33, lengthened("padme/v1/default/data/p/t/"+string(rune('A'+i))+"/alice/w"), "\x00\x01", load)
		alice.wants(0x40, "\x00\x01")
	}
	if retained {
		subscribe()
	}
	for _, c := range slow {
		c.send(ping)
	}
	for range 300 { // until they are stuck, and beyond
		look.send(ping)
		look.wants(pong, "")
		time.Sleep(time.Millisecond)
	}
}

// Nor has one that waits until its user's other connections have read more.
func TestWhoWaitsForRoomHasNoTurn(t *testing.T) {
	b := observed(t)
	b.manyRetained()
	look, full := logIn(t, b, "look"), logIn(t, b, "watch")
	full.send(ping)
	full.wants(pong, "")
	b.shares.mu.Lock()
	of := b.shares.byUser["watch"]
	b.shares.mu.Unlock()
	of.mu.Lock()
	of.planned = int64(b.cfg.Limits.UserQueue)
	of.mu.Unlock()
	for range runtime.GOMAXPROCS(0) {
		logIn(t, b, "watch").send(0x82, "\x00\x01", lengthened("padme/#"), "\x00")
	}
	for range 300 { // until they wait, and beyond
		look.send(ping)
		look.wants(pong, "")
		time.Sleep(time.Millisecond)
	}
}

// manyRetained has a search of all topics take several parts.
func (b *Broker) manyRetained() {
	for i := range 8 * searchTopics {
		b.access.quota.keep("alice", "padme/v1/default/data/p/t/"+strconv.Itoa(i)+"/alice/w", 1)
	}
}

// The searches of one observer, which wait for each other, come to an end.
func TestSearchesOfAnObserverEnd(t *testing.T) {
	b := observed(t)
	b.manyRetained()
	var all []plain
	for range 4 * runtime.GOMAXPROCS(0) {
		all = append(all, logIn(t, b, "watch"))
	}
	for _, c := range all {
		c.send(0x82, "\x00\x01", lengthened("padme/#"), "\x00")
	}
	for _, c := range all {
		c.wants(0x90, "\x00\x01\x00")
	}
}

// A connection beyond those of its user costs what it has sent, and not what mochi spends on one.
func TestAConnectionTooManyIsCheap(t *testing.T) {
	b := observed(t)
	for range 25 {
		logIn(t, b, "watch").send(ping)
	}
	const more = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range more {
		c := dialed(t, b)
		c.logIn("watch", 0)
		c.wants(0x20, "\x00\x03")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / more; each > 32<<10 {
		t.Errorf("%d bytes each", each)
	}
}

// One that has sent too much, and is held back in the middle of a packet, has no turn meanwhile.
func TestWhoIsHeldBackHasNoTurn(t *testing.T) {
	_, end := newPipe()
	c := newConn(end, DefaultLimits())
	c.turns = newTurns(0)
	c.inTurn.Store(true)
	c.readCost = shareDue + 1
	held := true
	c.slow = func() { held, c.turns, c.readCost = c.inTurn.Load(), nil, 0 }
	c.goOn()
	if held {
		t.Error("it had one")
	}
}

// Nor while its CONNECT is processed, for which it has one already.
func TestWhoOwesForItsConnectHasNoTurn(t *testing.T) {
	b := observed(t)
	_, end := newPipe()
	c := newConn(end, b.cfg.Limits)
	c.turns, c.readCost = newTurns(0), shareDue+1
	c.inTurn.Store(true)
	c.slow = func() { t.Error("it was held back while it had one") }
	if _, err := b.flow.OnPacketRead(b.server.NewClient(c, "", "a", false), packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}); err != nil {
		t.Error(err)
	}
}

// A packet that waits for its turn when its connection is closed is not processed any more.
func TestWhatIsClosedGetsNoTurn(t *testing.T) {
	b := observed(t)
	watch, look := logIn(t, b, "watch"), logIn(t, b, "look")
	give := takeAll(t, b.observers)
	watch.send(0x82, "\x00\x01", lengthened("padme/v1/default/node/alice/bob"), "\x00") // which would be refused
	watch.nothing()
	var cl *mqtt.Client
	for _, other := range b.server.Clients.GetAll() {
		if string(other.Properties.Username) == "watch" {
			cl = other
		}
	}
	cl.Stop(packets.ErrSessionTakenOver)
	for end := time.Now().Add(20 * time.Second); !connOf(cl).left.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it waits for ever")
		}
	}
	if n := b.counts.refusedSubscribe.Load(); n > 0 {
		t.Error("it was processed")
	}
	give()
	look.send(ping)
	look.wants(pong, "")
}

// What an observer sends to inboxes has turns, too, also at QoS 0, which others' messages have not.
func TestMessagesOfObserversHaveTurns(t *testing.T) {
	b := observed(t)
	watch := logIn(t, b, "watch")
	give := takeAll(t, b.observers)
	before := b.counts.refusedPublish.Load()
	watch.send(0x30, lengthened("padme/v1/default/node/alice/watch"), "x")
	watch.nothing()
	b.flow.direct.ways.mu.RLock()
	ways := b.flow.direct.ways.size
	b.flow.direct.ways.mu.RUnlock()
	if ways > 0 || b.counts.refusedPublish.Load() > before {
		t.Error("it was looked at without a turn")
	}
	give()
	watch.send(ping)
	watch.wants(pong, "")
	if b.counts.refusedPublish.Load() != before+1 {
		t.Error("it was not refused")
	}
}

// An observer may send short packets only, and is told so.
func TestPacketsOfObserversAreShort(t *testing.T) {
	b := observed(t)
	for user, closed := range map[string]bool{"alice": false, "watch": true} {
		c := logIn(t, b, user)
		c.send(0x30, lengthened("padme/v1/default/data/p/t/k/alice/w"), strings.Repeat("x", 64<<10))
		_, _ = c.Write([]byte{ping, 0})
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, _ := c.Read(make([]byte, 2))
		if (n == 0) != closed {
			t.Errorf("%s: closed %v, want %v", user, n == 0, closed)
		}
	}
	for end := time.Now().Add(20 * time.Second); b.counts.cut[cutOversized].Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d were counted", b.counts.cut[cutOversized].Load())
		}
	}
}
