package broker

import (
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// credit is how long publishers have waited for a subscriber that lags, or for all of one
// user: a publisher waits for one after the other. The zero value is ready to use.
type credit struct {
	mu      sync.Mutex
	waiting int // publishers
	spent   time.Duration
	at      time.Time // until when, while one waits
}

// tally is a connection's part of a credit.
type tally struct {
	of   *credit
	seen int64 // progress of the connection that was paid for; guarded by of.mu
}

func (a *tally) enter() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.of.waiting++; a.of.waiting == 1 {
		a.of.at = time.Now()
	}
}

// check reports whether more than the most was spent. An eighth of a full queue earns the
// whole of it again; one message in every few seconds does not. A publisher that does not
// stay has entered before.
func (a *tally) check(progress int64, l *Limits, stays bool) (used bool) {
	c := a.of
	c.mu.Lock()
	defer c.mu.Unlock()
	most, full := l.WriteTimeout, l.highWater()/8
	now, earned := time.Now(), min(progress-a.seen, full)
	c.spent = max(0, c.spent+now.Sub(c.at)-most*time.Duration(earned)/time.Duration(full))
	c.at, a.seen = now, progress
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

// waitedFor tells the connection's own credit, and that of its user, that a publisher waits.
func (c *conn) waitedFor() {
	c.own.enter()
	c.users.enter()
}

// usedUp reports whether one of them is used up. The user's alone would be earned by another
// of its connections that lags and gets on; of the connections' own a user has many.
func (c *conn) usedUp(l *Limits, stays bool) bool {
	progress := c.progress.Load()
	own, users := c.own.check(progress, l, stays), c.users.check(progress, l, stays)
	return own || users
}

// progressOf is how much it is to send a message, or to have it acknowledged.
func progressOf(pk packets.Packet) int64 { return 1 + queuedSize(pk)>>14 }

// await waits while a subscriber lags and gets on, and disconnects one that gets on too
// slowly, whoever waits for it.
func (h *flow) await(cl *mqtt.Client, c *conn) {
	c.waitedFor()
	defer c.usedUp(&h.limits, false)
	for h.lags(cl, c) {
		time.Sleep(200 * time.Microsecond)
		if !c.usedUp(&h.limits, true) || !c.stalled.CompareAndSwap(false, true) {
			continue
		}
		limit := "write-timeout" // noteCut counts it
		if c.holdsTooMuch(h.limits) {
			limit = "max-user-queue"
			h.access.limited("max-user-queue", string(cl.Properties.Username), cl.Net.Remote)
		}
		h.access.tellLoss(cl, limit, "client disconnected: it does not read or acknowledge what it subscribed to, or too slowly",
			"queued", c.pending.Load(), "unacknowledged", cl.State.Inflight.Len())
		cl.Stop(packets.ErrQuotaExceeded)
	}
}
