package broker

import (
	"runtime"

	"github.com/mochi-mqtt/server/v2/packets"
)

// yieldEvery is how many packets of one client are processed before others get a turn, some
// 100 microseconds.
const yieldEvery = 16

// yield lets others run. A goroutine that always has a packet to process keeps a processor
// for the ten milliseconds until it is preempted; with a hundred of them whoever sends one
// packet waits for half a second.
func (c *conn) yield(kind byte) {
	c.busy++
	if c.busy >= yieldEvery || kind == packets.Subscribe || kind == packets.Unsubscribe {
		c.busy = 0
		runtime.Gosched()
	}
}
