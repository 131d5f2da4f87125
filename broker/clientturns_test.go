package broker

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"padme/tests/poll"
)

// While clients have all the turns that they can have, members and observers do not wait.
func TestClientsWaitForClients(t *testing.T) {
	b := observed(t)
	waitsAlone(t, b.clients, logIn(t, b, "esp"), logIn(t, b, "alice"), logIn(t, b, "watch"))
}

// Who has waited for a turn has done no work meanwhile: among many others an honest client would
// be held back for more than it sends.
func TestWaitingForATurnCostsNothing(t *testing.T) {
	b := observed(t)
	esp := logIn(t, b, "esp")
	give := takeAll(t, b.clients)
	esp.send(ping)
	time.Sleep(200 * time.Millisecond) // as much work would be more than there is credit for
	give()
	esp.wants(pong, "")
	esp.send(ping) // the first is charged before it is read
	esp.wants(pong, "")
	b.shares.mu.Lock()
	defer b.shares.mu.Unlock()
	if b.shares.byUser["esp"].sent.owes.Load() {
		t.Error("the client owes for its waiting")
	}
}

// A client that waits for a subscriber that lags has no turn meanwhile.
func TestAPublisherThatWaitsHasNoTurn(t *testing.T) {
	const request, note = "padme/v1/default/lock/crane/client/esp/request", "padme/v1/default/lock/crane/client/esp/note"
	for name, c := range map[string]struct {
		topic string
		will  bool
	}{
		"at QoS 1": {request, false}, "with a will": {request, true}, "with a will for others": {note, true},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.topic
			b := observed(t)
			bot, gate := logIn(t, b, "bot"), logIn(t, b, "gate")
			gate.send(0x82, "\x00\x01", lengthened(topic), "\x01")
			gate.wants(0x90, "\x00\x01\x01")
			for range 2 * runtime.GOMAXPROCS(0) { // more than there are turns
				esp := dialed(t, b)
				esp.logIn("esp", 0x0c, lengthened(topic), lengthened(`{"op":"gone"}`))
				esp.wants(0x20, "\x00\x00")
				go func() {
					for i := 1; i < 1000; i++ { // more than may wait for one that acknowledges nothing
						body := append(binary.BigEndian.AppendUint16([]byte(lengthened(topic)), uint16(i)), make([]byte, 500)...)
						if _, err := esp.Write(append(binary.AppendUvarint([]byte{0x32}, uint64(len(body))), body...)); err != nil {
							return
						}
					}
				}()
			}
			time.Sleep(100 * time.Millisecond)
			for range 2 * runtime.GOMAXPROCS(0) {
				esp := dialed(t, b)
				esp.logIn("esp", 0x0c, lengthened(topic), lengthened(`{"op":"gone"}`))
				esp.wants(0x20, "\x00\x00")
				if c.will {
					esp.send(0x32, lengthened(topic), "\x00\x00") // which ends it
				}
			}
			for range 300 { // until they are stuck, and beyond
				bot.send(ping)
				bot.wants(pong, "")
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// Nor has one that waits for another that publishes to its topic.
func TestAPublisherThatWaitsForAnotherHasNoTurn(t *testing.T) {
	b := observed(t)
	const topic = "padme/v1/default/lock/crane/client/esp/request"
	other := b.server.NewClient(nil, "", "", true)
	b.guard.order.begin(other, topic)
	defer b.guard.order.end(other)
	esp := logIn(t, b, "esp")
	for range 20 { // each waits for half a second
		esp.send(0x31, lengthened(topic), `{"op":"gone"}`)
	}
	poll.Until(t, "the publication waits for the other", func() bool {
		b.guard.order.mu.Lock()
		defer b.guard.order.mu.Unlock()
		return b.guard.order.topics[topic].users == 2
	})
	if !b.clients.takeFree() {
		t.Fatal("it has its turn meanwhile")
	}
	b.clients.give()
}

// Observers and clients of locks that take all the room for clients leave some to members.
func TestMembersHaveRoom(t *testing.T) {
	b := observed(t)
	b.cfg.Limits.Clients = 16 + b.inside
	room := func(turns *turns) bool { return b.hasRoom(&conn{turns: turns}) }
	let := 0
	for _, turns := range []*turns{b.observers, b.clients} {
		for range 8 {
			if room(turns) {
				let++
			}
		}
	}
	if let >= 16 || let < 13 {
		t.Errorf("%d of sixteen observers and clients have room", let)
	}
	for range 16 - let {
		if !room(nil) {
			t.Error("a member has none")
		}
	}
	if room(nil) {
		t.Error("one too many has room")
	}
}
