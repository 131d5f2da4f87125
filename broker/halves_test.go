package broker_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"padme/broker"
)

// leaveHalves begins n exchanges at QoS 2 in alice's session, ends none, and reports whether the broker
// has let it.
func leaveHalves(t *testing.T, b *broker.Broker, from, n uint16) bool {
	t.Helper()
	c := raw(t, b)
	defer c.Close()
	c.send(packet(0x10, text("MQTT"), []byte{4, 0xc0, 0, 60}, text("alice"), text("alice"), text("alice")))
	c.receive()
	go func() {
		for id := range n {
			_, _ = c.Write(packet(0x34, text("padme/v1/default/data/p/t/0/alice/w"), binary.BigEndian.AppendUint16(nil, from+id)))
		}
		_, _ = c.Write([]byte{0xc0, 0})
	}()
	for {
		var head [2]byte
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return false
		}
		if head[0] == 0xd0 {
			return true
		}
		_, _ = io.ReadFull(c, make([]byte, head[1]))
	}
}

// A client that comes back to its session has no more room for unfinished exchanges than before, and what
// it leaves takes no room of what waits for others.
func TestHalvesOverReconnects(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{UserQueue: 1 << 20, Absent: 4 << 20}})
	victim := connect(t, inProcess(b), session("bob"), as("bob", "bob"))
	victim.subscribe("padme/v1/default/data/p/t/0/root/w", 1)
	victim.Disconnect(50)
	for range 2 {
		if !leaveHalves(t, b, 1, 1000) {
			t.Error("a thousand are too many, or the same ones again")
		}
	}
	for round := range uint16(4) {
		if leaveHalves(t, b, 2000+1000*round, 1000) {
			t.Error("2,000 exchanges are unfinished in one session")
		}
	}
	pub := connect(t, inProcess(b), as("root", "root"))
	for i := range 200 {
		pub.publish("padme/v1/default/data/p/t/0/root/w", fmt.Sprint(i, strings.Repeat("x", 500)), 1, false)
	}
	connect(t, inProcess(b), session("bob"), as("bob", "bob")).receive(200)
}
