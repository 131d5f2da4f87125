package broker

import (
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// credit is how long publishers have waited for a subscriber that lags, or for all of one
// user: a publisher waits for one after the other. The zero value is ready to use.
type credit struct {
	progress atomic.Int64 // grows when a message leaves or is acknowledged

	mu      sync.Mutex
	waiting int // publishers
	spent   time.Duration
	at      time.Time // until when, while one waits
	seen    int64     // progress that was paid for
}

func (c *credit) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; c.waiting == 1 {
		c.at = time.Now()
	}
}

// check reports whether more than the most was spent. An eighth of a full queue earns the
// whole of it again; one message in every few seconds does not. A publisher that does not
// stay has entered before.
func (c *credit) check(l *Limits, stays bool) (used bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, full, progress := l.WriteTimeout, l.highWater()/8, c.progress.Load()
	now, earned := time.Now(), min(progress-c.seen, full)
	c.spent = max(0, c.spent+now.Sub(c.at)-most*time.Duration(earned)/time.Duration(full))
	c.at, c.seen = now, progress
	if !stays {
		c.waiting--
	}
	return c.spent > most
}

// owes reports whether anybody has waited, and it was not earned since.
func (c *credit) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent > 0
}

// progressOf is how much it is to send a message, or to have it acknowledged.
func progressOf(pk packets.Packet) int64 { return 1 + queuedSize(pk)>>14 }

// await waits while a subscriber lags and gets on, and disconnects one that gets on too
// slowly, whoever waits for it.
func (h *flow) await(cl *mqtt.Client, c *conn) {
	c.credit.enter()
	defer func() { c.credit.check(&h.limits, false) }()
	for h.lags(cl, c) {
		time.Sleep(200 * time.Microsecond)
		if !c.credit.check(&h.limits, true) || !c.stalled.CompareAndSwap(false, true) {
			continue
		}
		if c.holdsTooMuch(h.limits) {
			h.access.limited("max-user-queue", string(cl.Properties.Username), cl.Net.Remote)
		}
		h.log.Warn("client disconnected: it does not read or acknowledge what it subscribed to, or too slowly", "client", cl.ID,
			"queued", c.pending.Load(), "unacknowledged", cl.State.Inflight.Len())
		cl.Stop(packets.ErrQuotaExceeded)
	}
}
