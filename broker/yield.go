package broker

import (
	"runtime"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// yieldEvery is how many packets of one client are processed before others get a turn, some
// 100 microseconds. So many bytes count as much as one.
const (
	yieldEvery = 16
	yieldBytes = 2048
)

// yield lets others run. A goroutine that always has a packet to process keeps a processor
// for the ten milliseconds until it is preempted; with a hundred of them whoever sends one
// packet waits for half a second.
func (c *conn) yield(kind byte, bytes int) {
	if c.hadTurn(kind, bytes) {
		runtime.Gosched()
	}
}

// hadTurn reports whether it is others' turn after another packet. A connection in the process, as
// the node's, goes on: it answers what hundreds of others ask, and between two turns it would wait
// for a turn of each of them.
func (c *conn) hadTurn(kind byte, bytes int) bool {
	searched := kind == packets.Subscribe || kind == packets.Unsubscribe
	if c.inProcess() {
		return searched
	}
	c.busy += 1 + bytes/yieldBytes
	if c.busy < yieldEvery && !searched {
		return false
	}
	c.busy = 0
	return true
}

// takeTurn waits for the turn of an observer's or a client's packet. Observers have half of the
// processors together, and so have clients: the scheduler serves goroutines in the order in which
// they have something to do, so with a packet of each of their hundreds of connections before it,
// one of a lock would wait for all of those. Whoever has a turn does not wait for the network, nor
// for what needs a turn. It reports false if the connection was closed meanwhile.
func (c *conn) takeTurn() bool {
	if c.turns == nil || c.inTurn.Load() {
		return true
	}
	if c.turns.take(c.stays(), "", c.share.name) != nil {
		return false
	}
	c.inTurn.Store(true)
	c.began = time.Now() // waiting is no work
	return true
}

// decoders are the turns in which what users send is decoded, see takeUsersTurn. Users take
// turns by name, and heavy ones share a line, which is the address of these turns.
type decoders struct {
	members *turns // and those who may do more
	others  *turns // clients and observers, with half of the processors together
}

func newDecoders(processors int) decoders {
	return decoders{newTurns(processors), newTurns(max(1, processors/2))}
}

// of are those of a user.
func (d *decoders) of(users *Users, name []byte) *turns {
	if a, known := users.lookup(name); known && (a.role == Observer || a.role == Client) {
		return d.others
	}
	return d.members
}

// giveTurn ends that, if the connection has one.
func (c *conn) giveTurn() {
	if c.turns != nil && c.inTurn.CompareAndSwap(true, false) {
		c.turns.give()
	}
}

// giveTurnOf is giveTurn for a client that may have no connection.
func giveTurnOf(cl *mqtt.Client) {
	if c := connOf(cl); c != nil {
		c.giveTurn()
	}
}
