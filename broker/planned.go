package broker

import (
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// plannedCosts is what a topic costs that a replay has yet to send, in bytes: a subscription of
// mochi's, whose strings are in the index as well.
const plannedCosts = 80

// awaitRoom charges the user of a connection for what its replay has yet to send, once the user's
// other connections have read enough of theirs. Those that hardly read could keep megabytes each.
func (h *replay) awaitRoom(cl *mqtt.Client, c *conn) bool {
	c.giveTurn()
	size := min(int64(len(c.replay.plan))*plannedCosts, int64(h.limits.UserQueue)/2) // or a large one would never have room
	for begun := time.Now(); !c.plans(size, int64(h.limits.UserQueue)); time.Sleep(10 * time.Millisecond) {
		if cl.Closed() || c.gone.Load() || c.peerLeft() {
			return false
		}
		if time.Since(begun) > h.limits.WriteTimeout {
			h.access.limited("max-user-queue", string(cl.Properties.Username), cl.Net.Remote)
			_ = c.Close()
			return false
		}
	}
	c.began = time.Now() // the wait is not charged
	return true
}

// plans reports whether there is room for a plan, and takes it.
func (c *conn) plans(size, most int64) bool {
	of := c.share
	if of == nil {
		return true
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.planned+size > most {
		return false
	}
	of.planned += size
	c.replay.charged = size
	return true
}

// planned gives back what plans has taken.
func (c *conn) planned() {
	if of := c.share; of != nil && c.replay.charged > 0 {
		of.mu.Lock()
		defer of.mu.Unlock()
		of.planned -= c.replay.charged
	}
}
