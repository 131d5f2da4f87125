package qosmutex

import (
	"fmt"
	"time"

	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

// A server reads so many messages of a client and serves so many of its requests at once,
// and turns away what is more, which then has to be said again: a client waits by itself
// instead, in order.
const (
	// paceOf is the time between two messages of a client that says much; somewhat more
	// than a server allows for, whose clock may be slow.
	paceOf = protocol.Time(time.Second) * 11 / (10 * jsonlock.Rate)
	// aheadAll is how many messages may be said at once, times paceOf; aheadAsking is the
	// same for messages of those that wait, so that there is always room for holds.
	aheadAll    = paceOf * jsonlock.Rate * 18 / 10
	aheadAsking = paceOf * jsonlock.Rate * 13 / 10
)

// mayAt is when a call may say what it has to say: now, when the server reads more, or
// protocol.Never if as many requests as it serves are before it; then sendHeldBack sends it.
func (c *Client) mayAt(k *call, now protocol.Time) protocol.Time {
	ahead := aheadAll
	if k.hold.phase.Load() == waiting && !k.releasing {
		ahead = aheadAsking
		if k.first == 0 && c.sent() >= jsonlock.MaxLive {
			k.heldBack = true
			k.busy = fmt.Sprintf("%d requests of this client are at the server, the most that it takes", jsonlock.MaxLive)
			return protocol.Never
		}
	}
	c.paced = max(c.paced, now)
	if c.paced-now > ahead {
		return c.paced - ahead
	}
	c.paced += paceOf
	return now
}

// sent counts the requests that the server may have.
func (c *Client) sent() int {
	n := 0
	for _, k := range c.calls {
		if k.first != 0 && !k.releasing {
			n++
		}
	}
	return n
}

// sendHeldBack sends the first of the requests that were held back, if there is room for it
// now.
func (c *Client) sendHeldBack(now protocol.Time) {
	if c.closing || c.ended {
		return
	}
	var first *call
	for _, k := range c.calls {
		if k.heldBack && (first == nil || k.priority < first.priority || k.priority == first.priority && k.hold.ref < first.hold.ref) {
			first = k
		}
	}
	if first != nil && c.sent() < jsonlock.MaxLive {
		first.heldBack = false
		c.say(first, now)
	}
}
