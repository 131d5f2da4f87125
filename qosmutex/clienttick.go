package qosmutex

import (
	"encoding/json"
	"fmt"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

const (
	// searchAfter is how long an answer may take until the client looks who serves, and
	// searchWait how long that takes at least until nobody does.
	searchAfter = protocol.Time(500 * time.Millisecond)
	searchWait  = 1500 * time.Millisecond
	// partingWait is for how long Close waits at a quick broker where nobody ever answered, and
	// offlineWait for a connection: with the default TTL what was held is free then anyway.
	partingWait = 500 * time.Millisecond
	offlineWait = 3 * time.Second
	// quickAnswers of the broker in turn, each within quickAnswer, are needed until nobody
	// serves: where it is slow those that serve may have lost their connection to it.
	quickAnswers = 3
	quickAnswer  = 250 * time.Millisecond
	// probePause, times what an answer took, is the least time until the next question.
	probePause = 4
	// tellAgain is how often run looks if nothing is due.
	tellAgain = protocol.Time(time.Hour)
)

// run does what is due, until the client or its participant ends.
func (c *Client) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.p.Done():
			c.end(c.participantEnded())
			return
		case <-c.ctx.Done():
			return
		}
		timer.Reset(c.tick())
	}
}

// wakeBy has run look at the time given or before. The caller holds mu.
func (c *Client) wakeBy(at protocol.Time) {
	if at < c.wakes {
		c.wakes = at
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// tick does what is due and returns after what time something is next.
func (c *Client) tick() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return time.Hour
	}
	now := c.clock()
	c.wakes = now // what follows wakes nobody
	next := now + tellAgain
	for _, k := range c.inOrder() {
		next = min(next, c.look(k, now))
	}
	for _, k := range c.calls { // those that were held back before another one ended
		next = min(next, k.next)
	}
	c.wakes = next
	return max(time.Duration(next-c.clock()), 0)
}

// look does what is due for one call and returns when something is next.
func (c *Client) look(k *call, now protocol.Time) protocol.Time {
	h := k.hold
	phase := h.phase.Load()
	if phase == held && h.Check() != nil {
		c.count.losses.Add(1)
		phase = lost
	}
	switch {
	case phase == lost && !k.releasing:
		// Unlock tells the server. Until then that keeps others out, for as long as it may.
		k.ends, k.next = max(k.ends, k.forgotten()), protocol.Never
		fallthrough
	case k.releasing:
		// Offline it waits on: a server that was away as well may go on with the hold, for a
		// lease from its return.
		if now >= k.ends && (!c.offline || c.closing) {
			c.drop(k)
			return protocol.Never
		}
	case phase == waiting && !k.known && c.search.reads:
		c.fail(k, c.mayOnlyRead())
		c.drop(k)
		return protocol.Never
	case phase == waiting && !k.known && c.search.nobody(now, c.patience):
		c.fail(k, c.noServer())
		c.drop(k)
		return protocol.Never
	}
	if k.next <= now {
		c.say(k, now)
	}
	next := k.next
	if k.silent != 0 {
		next = min(next, c.searchFor(k.silent, now))
	}
	if k.ends > now {
		next = min(next, k.ends)
	}
	if phase == held { // timers stop while the machine sleeps, this clock does not
		left := protocol.Time(h.until.Load()) - now
		next = min(next, now+max(left/10, protocol.Time(10*time.Millisecond)))
	}
	return next
}

// reconnected follows the connection.
func (c *Client) reconnected(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.search.since, c.search.quick = 0, 0
	if c.offline = !up; !up {
		c.losses++
		clear(c.search.servers) // those that still serve are told again
		return
	}
	if c.search.granted && !c.ended && !c.closing {
		c.running.Go(func() { c.askRole()() })
	}
	for _, k := range c.calls { // what was sent may be lost
		k.silent, k.tries = 0, 0
		if k.ends != 0 {
			k.ends = now + forgetting
		}
		if k.next != protocol.Never {
			k.next = now
		}
	}
	c.wakeBy(now)
}

// search is who serves, as presences tell. It begins when an answer takes long.
type search struct {
	running bool
	granted bool          // the broker has answered that presences come
	reads   bool          // the broker has told that this user may only read
	since   protocol.Time // that has told of nobody who serves, on the present connection; 0: not
	quick   int           // answers of the broker since it was slow
	servers map[string]servedPresence
}

// servedPresence is what the presence of a participant says of whether it serves.
type servedPresence struct {
	Alive       bool              `json:"alive"`
	Incarnation string            `json:"incarnation"`
	Epoch       string            `json:"epoch"`
	UserData    map[string]string `json:"userData"`
}

// nobody reports whether it was looked for long enough in vain.
func (s *search) nobody(now, patience protocol.Time) bool {
	return s.since != 0 && len(s.servers) == 0 && now-s.since >= patience && s.quick >= quickAnswers
}

// searchFor begins to look for servers if what has been unanswered since silent is so for
// long, and returns when to look again.
func (c *Client) searchFor(silent, now protocol.Time) protocol.Time {
	s := &c.search
	switch {
	case now < silent+searchAfter:
		return silent + searchAfter
	case !s.running:
		s.running, s.servers = true, map[string]servedPresence{}
		c.running.Go(c.followPresences)
		return protocol.Never
	case s.since == 0, s.quick < quickAnswers: // offline, or the broker is silent or slow
		return protocol.Never
	}
	if end := s.since + c.patience; end > now {
		return end
	}
	return protocol.Never
}

// followPresences keeps the servers up to date until the client ends. Where presences cannot be
// read it is not known who serves, and nobody is said to be absent.
func (c *Client) followPresences() {
	stop, err := c.p.SubscribeRaw(c.ctx, pubsub.Main, []string{"presence", "+"}, c.present)
	if err != nil {
		c.log.Debug("who serves is not known", "lock", c.name, "error", err)
		return
	}
	defer stop()
	c.mu.Lock()
	c.search.granted = true
	c.mu.Unlock()
	defer c.askRole()()
	c.probe()
}

// probe asks the broker again and again, while it matters how quick it is, until the client
// ends. A slow one is asked less often: hundreds of clients may be waiting for it.
func (c *Client) probe() {
	pause := time.NewTimer(time.Duration(searchAfter))
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			return
		}
		pause.Reset(time.Duration(searchAfter))
		c.mu.Lock()
		losses, matters := c.losses, len(c.search.servers) == 0 && c.unansweredCalls()
		c.mu.Unlock()
		if !matters {
			continue
		}
		begun := time.Now()
		stop, err := c.p.SubscribeRaw(c.ctx, pubsub.Main, []string{"role"}, func(pubsub.RawMessage) {})
		took := time.Since(begun)
		pause.Reset(max(time.Duration(searchAfter), probePause*took))
		if err == nil {
			stop()
		}
		c.mu.Lock()
		if c.search.quick++; took > quickAnswer || losses != c.losses {
			c.search.quick = 0
		}
		c.wakeBy(c.clock())
		c.mu.Unlock()
	}
}

// unansweredCalls reports whether a request waits for an answer. The caller holds mu.
func (c *Client) unansweredCalls() bool {
	for _, k := range c.calls {
		if k.silent != 0 && !k.known {
			return true
		}
	}
	return false
}

// askRole asks the broker for the role of this user, until the function that it returns is
// called: the embedded broker tells, others say nothing. When it has been answered, so have
// the presences before it, and nobody serves if nobody has come by then and for some time.
func (c *Client) askRole() (stop func()) {
	begun := time.Now()
	c.mu.Lock()
	losses := c.losses
	c.mu.Unlock()
	stop, err := c.p.SubscribeRaw(c.ctx, pubsub.Main, []string{"role"}, func(m pubsub.RawMessage) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.search.reads = string(m.Payload) == "observer"
		c.wakeBy(c.clock())
	})
	if err != nil {
		c.log.Debug("the role of this user is not known", "lock", c.name, "error", err)
		stop = func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = max(c.patience, patienceAfter(time.Since(begun)))
	if c.losses == losses && c.p.Connected() && c.ctx.Err() == nil {
		c.search.since = c.clock()
		c.wakeBy(c.search.since)
	}
	return stop
}

// patienceAfter is how long to look for servers where a round trip to the broker took so long.
func patienceAfter(took time.Duration) protocol.Time {
	return protocol.Time(min(searchWait+4*took, 4*searchWait))
}

// present takes in a presence. A death counts for the birth that it names: brokers may
// publish the last will of a connection after the birth of the next one.
func (c *Client) present(m pubsub.RawMessage) {
	id := m.Levels[len(m.Levels)-1]
	var pr servedPresence
	if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &pr) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.search
	born, known := s.servers[id]
	switch {
	case pr.Alive && pr.UserData[jsonlock.ServesKey] == jsonlock.ServesLocks:
		s.servers[id] = pr
	case known && !pr.Alive && (pr.Incarnation != born.Incarnation || pr.Epoch != born.Epoch):
	case known:
		if delete(s.servers, id); len(s.servers) == 0 && s.since != 0 {
			s.since = c.clock() // another one may be about to come
		}
	}
	c.wakeBy(c.clock())
}

// mayOnlyRead is the error when what this user says reaches nobody.
func (c *Client) mayOnlyRead() error {
	return fmt.Errorf("qosmutex: lock topic %q: %w: user %q has role observer at %s, which reads only: use an account with role client or member", c.name, pubsub.ErrRefused, c.p.ID(), c.p.URL())
}

// noServer is the error when nobody serves.
func (c *Client) noServer() error { return &noServerError{c.name, c.p.URL(), scopeOf(c.p)} }
