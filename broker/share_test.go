package broker

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"padme/tests/bubble"
)

// A user may take its rate and a fiftieth of a second ahead, and owes for one packet more.
func TestAShareIsBounded(t *testing.T) {
	var b bucket
	now := time.Now()
	took := 0
	for ; took < 1000 && b.pay(1, 1000, now); took++ {
	}
	if took != 21 {
		t.Errorf("%d at once of 1000 a second", took)
	}
	now = now.Add(10 * time.Millisecond)
	if !b.pay(1e6, 1000, now) || b.pay(0, 1000, now.Add(90*time.Millisecond)) {
		t.Error("what was owed is forgotten")
	}
	if !b.pay(0, 1000, now.Add(95*time.Millisecond)) {
		t.Error("somebody waits for longer than a tenth of a second")
	}
}

// chargedOf is a connection of a user whose packets are charged.
func chargedOf(b *Broker, user string) *conn {
	_, end := newPipe()
	c := newConn(end, b.cfg.Limits)
	c.share, c.slow, c.rate = b.shares.enter(user), func() { b.slowRead(c) }, float64(b.cfg.Limits.UserRate)
	return c
}

// What takes long costs as much: packets of 10 ms, on however many connections, come to half
// a processor together.
func TestAPacketCostsItsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, _ := limitedInTest()
		b.cfg.Limits, b.flow = DefaultLimits(), &flow{}
		other := b.shares.enter("other")
		var processed atomic.Int64
		end := time.Now().Add(3 * time.Second)
		go func() {
			for ; time.Now().Before(end); time.Sleep(shareRecent / 2) {
				other.active.Store(time.Now().UnixNano())
			}
		}()
		for range 50 {
			c := chargedOf(b, "many")
			cl := &mqtt.Client{Net: mqtt.ClientConnection{Conn: c}}
			go func() {
				for time.Now().Before(end) {
					if _, err := b.flow.OnPacketRead(cl, packets.Packet{}); err != nil {
						t.Error(err)
					}
					if time.Now().Before(end) {
						processed.Add(1)
					}
					time.Sleep(10 * time.Millisecond) // of a processor's time
					b.flow.OnPacketProcessed(cl, packets.Packet{}, nil)
				}
			}()
		}
		synctest.Wait()
		time.Sleep(4 * time.Second)
		if n := processed.Load(); n < 140 || n > 160 {
			t.Errorf("%d packets of 10 ms in three seconds", n)
		}
	})
}

// Whoever leaves after one costly packet has it charged to its user, whose next connections
// wait before their first.
func TestAPacketOfWhoLeavesIsPaidFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, _ := limitedInTest()
		b.cfg.Limits, b.flow = DefaultLimits(), &flow{}
		other := b.shares.enter("other")
		begun := time.Now()
		for range 100 {
			other.active.Store(time.Now().UnixNano())
			c := chargedOf(b, "many")
			c.begin()
			time.Sleep(20 * time.Millisecond) // of a processor's time
			c.processed()
			b.shares.leave(c.share)
		}
		if took := time.Since(begun); took < 3500*time.Millisecond {
			t.Errorf("100 packets of 20 ms took %v", took)
		}
	})
}

// While its user owes, a connection pays for what it sends, and no more, whether packets come
// together or each by itself.
func TestShortPacketsOfWhoOwesCostOneEach(t *testing.T) {
	t.Run("together", func(t *testing.T) { testShortPackets(t, func(*conn) {}) })
	t.Run("each by itself", func(t *testing.T) { testShortPackets(t, func(c *conn) { c.slow() }) })
}

func testShortPackets(t *testing.T, read func(*conn)) {
	bubble.Test(t, func(t *testing.T) {
		b, _ := limitedInTest()
		b.cfg.Limits, b.flow = DefaultLimits(), &flow{}
		other, rate := b.shares.enter("other"), float64(DefaultLimits().UserRate)
		c := chargedOf(b, "many")
		c.share.sent.charge(rate/10, rate, time.Now())
		begun := time.Now()
		for range 2000 {
			other.active.Store(time.Now().UnixNano())
			read(c)
			c.begin()
			c.processed()
		}
		if took := time.Since(begun); took < 200*time.Millisecond || took > 400*time.Millisecond {
			t.Errorf("2000 packets took %v", took)
		}
	})
}

// Messages to inboxes count against the rate of their user as all others.
func TestDirectMessagesCountAgainstTheRateOfTheirUser(t *testing.T) {
	b, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	_, end := newPipe()
	c := newConn(end, b.cfg.Limits)
	c.client.Store(b.server.NewClient(c, "", "a", false))
	c.greet()
	paid := 0
	c.slow = func() { paid++; c.readCost = 0 }
	const payments = 4
	message := appendPublish(nil, "padme/v1/default/node/bob/alice", nil)
	if rest := b.flow.direct.take(c, bytes.Repeat(message, payments*(shareDue+1)+1)); len(rest) > 0 {
		t.Fatalf("%d bytes were not taken", len(rest))
	}
	if paid < payments {
		t.Errorf("paid %d times, want %d", paid, payments)
	}
}

// A user is held back only while another one sends.
func TestWhoIsAloneIsNotHeldBack(t *testing.T) {
	var s shares
	now := time.Now()
	alice, again, bob := s.enter("alice"), s.enter("alice"), s.enter("bob")
	if alice != again {
		t.Error("two connections of a user have two shares")
	}
	alice.active.Store(now.UnixNano())
	if s.contended(alice, now) || !s.contended(bob, now) {
		t.Error("alice alone sends")
	}
	if s.contended(bob, now.Add(shareRecent)) {
		t.Error("alice counts for ever")
	}
	s.leave(alice)
	if !s.contended(bob, now) {
		t.Error("alice has a connection left")
	}
	s.leave(again)
	if s.contended(bob, now) || len(s.byUser) != 1 {
		t.Error("alice counts without a connection")
	}
}

// BenchmarkPacketOfWhoIsAlone is what the rate of a user costs each of its packets while no
// other user sends: for one that sends as fast as it can.
func BenchmarkPacketOfWhoIsAlone(b *testing.B) {
	node := &Broker{log: testLog(b)}
	node.cfg.Limits = DefaultLimits()
	for i := range 100 {
		node.shares.enter(strconv.Itoa(i))
	}
	c := chargedOf(node, "fast")
	for b.Loop() {
		c.begin()
		c.processed()
	}
}

// Time is charged once, and not the time that others have the tree of retained messages locked:
// who subscribes meanwhile is not the one that keeps the broker busy.
func TestTimeIsChargedOnce(t *testing.T) {
	b, _ := limitedInTest()
	b.cfg.Limits = DefaultLimits()
	c := chargedOf(b, "u")
	c.share = nil // which would be charged at once
	c.began = time.Now().Add(-time.Hour)
	c.spent(0)
	once := c.readCost
	if c.spent(0); once < float64(time.Hour/shareTime) || c.readCost > 1.5*once {
		t.Errorf("an hour costs %v, and then %v", once, c.readCost)
	}
	g := newRetainGuard()
	g.tree.Lock()
	var unlocked time.Time
	time.AfterFunc(5*time.Millisecond, func() {
		unlocked = time.Now()
		g.tree.Unlock()
	})
	g.lock(c)
	defer g.endReading(c)
	if c.began.Before(unlocked) {
		t.Errorf("it pays for %v in which it waited", unlocked.Sub(c.began))
	}
}

// A PUBLISH that is processed for long is charged what its user's own subscriptions can make of it, and
// not what those of others, or a busy machine do.
func TestAPublishCostsWhatItsUserMakesOfIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for own, most := range map[int]float64{0: sharePublish, 400: sharePublish + 400/ownPerUnit} {
			b, _ := limitedInTest()
			b.cfg.Limits = DefaultLimits()
			c := chargedOf(b, "u")
			c.share = nil // which would be charged at once
			c.begin()
			time.Sleep(time.Minute)
			c.published(func() int { return own })
			if c.readCost != most {
				t.Errorf("a minute costs %v with %d subscriptions, want %v", c.readCost, own, most)
			}
			c.published(func() int { t.Error("subscriptions are counted for each packet"); return 0 })
			if c.readCost != most+1 {
				t.Errorf("the next one costs %v", c.readCost-most)
			}
		}
	})
}

// Messages to a participant that share a payload cost their user as much as if each came alone,
// on either way.
func TestMessagesThatShareAPayloadAreCharged(t *testing.T) {
	b, _ := limitedInTest()
	b.cfg.Limits = DefaultLimits()
	b.flow = &flow{direct: &direct{prefix: []byte("padme/v1/")}}
	c := chargedOf(b, "many")
	cl := &mqtt.Client{Net: mqtt.ClientConnection{Conn: c}}
	message := []byte{0x98, 1, 1, 0, 0, 0, 0, 0x80, 0xc4, 0}
	samples := bytes.Repeat([]byte{0x98, 1, 4, 0, 0, 0, 0, 0x80, 0xc4, 0}, 20) // as repairs have them
	for _, m := range []struct {
		topic   string
		payload []byte
		least   float64
	}{
		{"padme/v1/d/node/a/b", bytes.Repeat(message, 20), 20},
		{"padme/v1/d/node/a/b", append(message, samples...), 1},
		{"padme/v1/d/topic/t/b", bytes.Repeat(message, 20), 1},
	} {
		topic, least := m.topic, m.least
		before := c.readCost
		c.begin()
		b.flow.OnPacketProcessed(cl, packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: topic, Payload: m.payload}, nil)
		if cost := c.readCost - before; cost < least || cost > least+15 {
			t.Errorf("%s costs %v, want %v", topic, cost, least)
		}
	}
}
