package qosmutex

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

// begin sends a request under an id that was never used. One that was sent just before
// waits a little: a server that ends everything must not be flooded.
func (c *Client) begin(k *call, now protocol.Time) {
	soon := k.first != 0 && now-k.first < firstRetry
	delete(c.calls, k.id)
	k.hold.ref, k.hold.priority = lastCall.Add(1), k.priority
	k.id = strconv.FormatUint(k.hold.ref, 10)
	k.losses, k.first, k.tries = c.losses, 0, 0
	c.calls[k.id] = k
	if soon {
		c.at(k, now+firstRetry)
	} else {
		c.say(k, now)
	}
}

// say sends what a call has to say now, and sets when that is said again if there is no
// answer.
func (c *Client) say(k *call, now protocol.Time) {
	if at := c.mayAt(k, now); at > now {
		c.at(k, at)
		return
	}
	if k.first == 0 {
		k.hold.priority = k.priority
	}
	ms := protocol.Time(time.Millisecond)
	r := k.message()
	r.ID, r.Session, r.Sent = k.id, c.session, jsonNumber(int64(now/ms))
	payload, err := r.Encode()
	if err == nil {
		err = c.p.PublishRaw(pubsub.Spare, c.levels, payload, false)
	}
	if err != nil { // offline, or the way to the broker is full
		c.log.Debug("a message to the server was not sent", "lock", c.name, "op", r.Op, "error", err)
	} else {
		if k.first == 0 {
			k.first = now / ms * ms
		}
		if k.silent == 0 {
			k.silent = now
		}
		if r.Op == jsonlock.Acquire || r.Op == jsonlock.Renew {
			k.renewed = now
		}
	}
	c.at(k, now+k.retry(now))
	k.tries++
}

// retry is after how long a message is repeated that is not answered: a renewal ever sooner,
// until the hold ends.
func (k *call) retry(now protocol.Time) protocol.Time {
	pause := min(firstRetry<<min(k.tries, 8), lastRetry)
	if k.hold.phase.Load() == held {
		left := protocol.Time(k.hold.until.Load()) - now
		pause = min(pause, max(left/4, leastPause))
	}
	return pause
}

// message is what a call has to say.
func (k *call) message() jsonlock.Request {
	phase := k.hold.phase.Load()
	switch {
	case k.releasing:
		return jsonlock.New(jsonlock.Release)
	case phase == held:
		return jsonlock.New(jsonlock.Renew)
	}
	r := jsonlock.New(jsonlock.Acquire)
	if k.known && k.first != 0 && k.priority < k.hold.priority {
		r.Op = jsonlock.Raise
	}
	r.Resource, r.Priority, r.Lease, r.Renews = k.asked, k.priority, clientLease, true
	if k.try {
		r.Wait = 0
	}
	r.Hold = min(k.stay, jsonlock.MaxWait)
	if !k.deadline.IsZero() {
		r.Within = max(min(time.Until(k.deadline), jsonlock.MaxWait), time.Millisecond)
	}
	return r
}

// at sets when a call has something to say next.
func (c *Client) at(k *call, next protocol.Time) {
	k.next = next
	c.wakeBy(next)
}

// giveUp takes a request back. It returns false if the request was decided without a
// hold in the meantime; a hold that came too late is left.
func (c *Client) giveUp(h *Hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.phase.Load() == failed {
		return false
	}
	k := c.of(h)
	if k == nil {
		return true
	}
	if h.phase.Load() == waiting {
		c.fail(k, c.closedError()) // which nobody sees
	}
	h.endHeld(released)
	c.release(k)
	return true
}

func (c *Client) unlock(h *Hold) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := h.Check()
	if c.p.Err() != nil { // it cannot be released any more
		err = h.ended()
	}
	h.endHeld(released)
	if k := c.of(h); k != nil {
		c.release(k)
	}
	return err
}

// release tells the server that a request is over, until it has answered that or must
// have forgotten the request.
func (c *Client) release(k *call) {
	now := c.clock()
	k.releasing, k.tries, k.silent = true, 0, 0
	k.ends = k.forgotten()
	if k.first == 0 { // it was never sent
		c.drop(k)
		return
	}
	c.say(k, now)
	c.sendHeldBack(now)
}

// forgotten is when the server's lease is over, by a clock that may be slow.
func (k *call) forgotten() protocol.Time {
	return k.renewed + forgetting
}

// fail ends a waiting request without a hold.
func (c *Client) fail(k *call, err error) {
	k.hold.err = err
	k.hold.phase.Store(failed)
	close(k.hold.ready)
}

// lose ends a hold that was not released, and its call.
func (c *Client) lose(k *call) {
	if k.hold.endHeld(lost) {
		c.count.losses.Add(1)
	}
	c.drop(k)
}

func (c *Client) drop(k *call) {
	delete(c.calls, k.id)
	c.sendHeldBack(c.clock())
	close(c.settled)
	c.settled = make(chan struct{})
}

// endHeld changes the phase of a hold that is held, and reports whether it was.
func (h *Hold) endHeld(to uint32) bool {
	if to == lost {
		h.until.Store(0) // before anything else: Check may be between its two loads
	}
	if !h.phase.CompareAndSwap(held, to) {
		return false
	}
	h.cancelContext()
	return true
}

// inOrder are the calls as they were made, so that a line that forms again keeps its
// order.
func (c *Client) inOrder() []*call {
	all := make([]*call, 0, len(c.calls))
	for _, k := range c.calls {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *call) int { return cmp.Compare(a.hold.ref, b.hold.ref) })
	return all
}
