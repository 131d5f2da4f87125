package broker

import (
	"bytes"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// retainGuard keeps two things apart that mochi does to its tree of retained
// messages without a common lock: writing the topic of one, and reading the topics
// for a new subscription. A torn read of a string takes the process down.
//
// Writing lasts from OnPublish or OnWill, the last hooks before it, to
// OnRetainMessage, the first one after. Reading lasts from the SUBACK to the end of the
// SUBSCRIBE, and pauses after each message (see replay), so that a message which is
// retained meanwhile is either the one that is sent, or queued after it.
type retainGuard struct {
	mqtt.HookBase
	order order
	tree  sync.RWMutex

	mu      sync.Mutex
	writing *mqtt.Client // has tree locked
}

func newRetainGuard() *retainGuard { return &retainGuard{} }

func (g *retainGuard) ID() string { return "retain" }

func (g *retainGuard) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnPublish, mqtt.OnPublished, mqtt.OnWill, mqtt.OnWillSent, mqtt.OnRetainMessage, mqtt.OnPacketSent,
	}, b) >= 0
}

// OnPublish must be the last hook of its kind: one that refused the message
// afterwards would leave the tree locked.
func (g *retainGuard) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Retain && !pk.Ignore {
		giveTurnOf(cl) // this waits for others that publish to the topic
		g.order.begin(cl, pk.TopicName)
		g.write(cl)
	}
	return pk, nil
}

// OnPublished comes when the message has been handed to all of its subscribers.
func (g *retainGuard) OnPublished(cl *mqtt.Client, pk packets.Packet) {
	if pk.FixedHeader.Retain && !pk.Ignore {
		g.order.end(cl)
	}
}

// OnWill likewise.
func (g *retainGuard) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	giveTurnOf(cl) // of a packet that ended its connection: a will may wait for subscribers
	if will.Retain {
		g.order.begin(cl, will.TopicName)
		g.write(cl)
	}
	return will, nil
}

// OnWillSent likewise.
func (g *retainGuard) OnWillSent(cl *mqtt.Client, pk packets.Packet) {
	if pk.FixedHeader.Retain {
		g.order.end(cl)
	}
}

func (g *retainGuard) write(cl *mqtt.Client) {
	g.tree.Lock()
	g.mu.Lock()
	g.writing = cl
	g.mu.Unlock()
}

// OnRetainMessage ends the writing.
func (g *retainGuard) OnRetainMessage(cl *mqtt.Client, _ packets.Packet, _ int64) {
	g.mu.Lock()
	mine := g.writing == cl
	if mine {
		g.writing = nil
	}
	g.mu.Unlock()
	if mine {
		g.tree.Unlock()
	}
}

// OnPacketSent begins the reading.
func (g *retainGuard) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	c := connOf(cl)
	if c == nil || pk.FixedHeader.Type != packets.Suback {
		return
	}
	c.replay.atStart = taken{c.takenMessages.Load(), c.takenBytes.Load()}
	c.spent(0)
	c.takeTurn() // again, if the SUBACK had to wait
	g.lock(c)
}

// lock locks the tree for reading. The wait for those that write to it is not charged, nor is a
// wait for the network before it.
func (g *retainGuard) lock(c *conn) {
	g.tree.RLock()
	c.replay.locked, c.began = true, time.Now()
}

func (g *retainGuard) unlock(c *conn) {
	c.replay.locked = false // first: what panics between this and a lock must not be unlocked again
	g.tree.RUnlock()
}

// endReading comes when a SUBSCRIBE was processed, or the connection ends.
func (g *retainGuard) endReading(c *conn) {
	if c.replay.locked {
		g.unlock(c)
	}
	c.planned()
	c.replay = replaying{}
}
