package broker

import (
	"bytes"
	"runtime"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// replay is the hook that decides what retained messages a SUBSCRIBE is sent. mochi would
// search its tree for each filter, send what several filters match as often, and drop
// what exceeds the client's queue; all of that under retainGuard, while nobody can retain.
//
// So mochi is told not to search. The topics are looked up in an index of ours, and each
// is added to the packet's filters once, in a way that subscribes to nothing: as an
// invalid filter, which becomes the topic when mochi has refused it. Then mochi looks that
// one message up and sends it. In between others may retain, and the client must read.
//
// It is sent at QoS 0, whatever was granted: at QoS 1 each waits for its acknowledgement in the
// session, and a client acknowledges nothing while its SUBSCRIBE is processed. A session that
// loses its connection meanwhile must subscribe again.
type replay struct {
	mqtt.HookBase
	server *mqtt.Server
	access *access
	guard  *retainGuard
	limits Limits
	turns  chan struct{} // of searches; as many at a time as it has room for
}

const (
	// replayMessages and replayBytes are how many retained messages may wait for one
	// client to read them, of the 8192 messages that mochi can queue for it.
	replayMessages = 2048
	replayBytes    = 4 << 20
)

func newReplay(b *Broker) *replay {
	atOnce := max(1, runtime.GOMAXPROCS(0)/2)
	return &replay{server: b.server, access: b.access, guard: b.guard, limits: b.cfg.Limits, turns: make(chan struct{}, atOnce)}
}

func (h *replay) ID() string { return "replay" }

func (h *replay) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPacketEncode, mqtt.OnPacketSent, mqtt.OnRetainPublished, mqtt.OnPacketProcessed}, b) >= 0
}

// replaying is the part of a connection that belongs to the SUBSCRIBE in process. Only the
// client's reading goroutine touches it.
type replaying struct {
	asked       int // filters in the packet
	plan        []packets.Subscription
	at          map[string]int        // in plan, by topic
	identifiers map[string]int        // of the subscriptions: the packet has one for all of them, or none
	left        packets.Subscriptions // the part of the packet that is the plan, from where next goes on
	open        *packets.Subscription // what mochi is to send of it; nil: nothing
	locked      bool                  // retainGuard's tree, for reading
	sent        int64                 // messages so far
	bytes       int64
	charged     int64 // see planned.go
	atStart     taken
}

// taken is what has left a client's queue.
type taken struct{ messages, bytes int64 }

// OnSubscribe must be the last hook of its kind: it sees what the others have left. It
// leaves the tree locked until mochi has subscribed, so that what is retained meanwhile is
// either looked up here or delivered to the new subscription.
func (h *replay) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	c := connOf(cl)
	if c == nil {
		return pk
	}
	c.replay = replaying{asked: len(pk.Filters), at: map[string]int{}}
	if of := pk.Properties.SubscriptionIdentifier; len(of) > 0 {
		c.replay.identifiers = map[string]int{"": of[0]}
	}
	tell := func(f *packets.Subscription, topic string) bool { return h.add(cl, c, f, topic) }
	s := h.access.quota.search(h.wanted(cl, pk.Filters))
	defer s.end()
	stays := h.look(cl, c, s, tell)
	c.spent(0)
	c.takeTurn()
	h.guard.lock(c)
	if !stays {
		c.replay.plan, c.replay.at = nil, nil
		return pk
	}
	for range 2 { // the rest of what was added while it looked, and what was added since
		for s.part(tell) {
		}
		s.again()
	}
	s.names(tell)
	pk.Filters = append(pk.Filters, make(packets.Subscriptions, len(c.replay.plan))...)
	return pk
}

// wanted returns the filters that are to be sent what is retained, and keeps mochi from it.
func (h *replay) wanted(cl *mqtt.Client, filters packets.Subscriptions) (wanted packets.Subscriptions) {
	for i := range filters {
		f := &filters[i]
		if head, _, _ := strings.Cut(f.Filter, "/"); isSys(head) {
			continue // a few topics that mochi writes itself
		}
		handling := f.RetainHandling
		f.RetainHandling = 2
		_, existed := cl.State.Subscriptions.Get(f.Filter)
		if handling == 2 || handling == 1 && existed || mqtt.IsSharedFilter(f.Filter) ||
			!mqtt.IsValidFilter(f.Filter, false) || !h.access.OnACLCheck(cl, f.Filter, false) {
			continue
		}
		wanted = append(wanted, *f)
	}
	return wanted
}

// look is the long part of a search, while others may retain. The connections of a user
// search one after the other, and all users take turns: the time is charged, but of many users
// each may have half a processor. What is added meanwhile is looked at as well. It stops when it
// sees that the client has gone.
func (h *replay) look(cl *mqtt.Client, c *conn, s *search, tell found) (stays bool) {
	if len(s.scopes) == 0 {
		return true
	}
	c.spent(0)
	c.giveTurn()
	if c.share != nil {
		c.share.searching.Lock()
		defer c.share.searching.Unlock()
	}
	s.begin()
	for h.part(c, s, tell) {
		if c.goOn(); cl.Closed() || c.peerLeft() {
			return false
		}
	}
	if !h.awaitRoom(cl, c) {
		return false
	}
	for range catchUps { // without waiting, or it would not catch up
		added := s.again()
		if added <= fewAdded {
			break
		}
		if added*len(s.scopes) <= searchSteps { // no more than a part, for which no turn is needed
			for s.part(tell) {
			}
			continue
		}
		for h.part(c, s, tell) {
		}
	}
	return !cl.Closed()
}

// part waits for a turn, and charges it.
func (h *replay) part(c *conn, s *search, tell found) (more bool) {
	h.turns <- struct{}{}
	defer func() { <-h.turns }()
	c.began = time.Now()
	defer c.spent(0)
	return s.part(tell)
}

const (
	// catchUps is how often a search goes through what was added meanwhile, at most.
	catchUps = 8
	// fewAdded is how many topics may be left for the time in which the tree is locked.
	fewAdded = 64
)

// add plans to send a topic that a filter matches, if the client may read it, and reports
// whether another filter that matches it would change that.
func (h *replay) add(cl *mqtt.Client, c *conn, f *packets.Subscription, topic string) (more bool) {
	if i, twice := c.replay.at[topic]; twice {
		p := &c.replay.plan[i]
		p.NoLocal = p.NoLocal && f.NoLocal
		return p.NoLocal
	}
	if !h.access.OnACLCheck(cl, topic, false) {
		return false
	}
	c.replay.at[topic] = len(c.replay.plan)
	c.replay.plan = append(c.replay.plan, packets.Subscription{Filter: topic, NoLocal: f.NoLocal, Identifiers: c.replay.identifiers})
	return f.NoLocal
}

// OnSubscribed puts the topics in, now that mochi has subscribed to the rest.
func (h *replay) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	c := connOf(cl)
	if c == nil || c.replay.asked == 0 {
		return
	}
	h.guard.unlock(c)
	if codes[0] == packets.ErrPacketIdentifierInUse.Code {
		return
	}
	for i, topic := range c.replay.plan {
		topic.RetainHandling = 2
		pk.Filters[c.replay.asked+i], codes[c.replay.asked+i] = topic, packets.CodeSuccess.Code
	}
	c.replay.left = pk.Filters[c.replay.asked:]
	c.replay.plan, c.replay.at = nil, nil // megabytes, and the client may read for long
}

// OnPacketEncode leaves the answers to what the client has not asked out.
func (h *replay) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if c := connOf(cl); c != nil && pk.FixedHeader.Type == packets.Suback && len(pk.ReasonCodes) > c.replay.asked {
		pk.ReasonCodes = pk.ReasonCodes[:c.replay.asked]
	}
	return pk
}

// OnPacketSent begins to send the plan, with the tree locked.
func (h *replay) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	c := connOf(cl)
	if c == nil || pk.FixedHeader.Type != packets.Suback || len(c.replay.left) == 0 {
		return
	}
	if h.full(cl, c) {
		h.guard.unlock(c)
		h.awaitReader(cl, c)
		h.guard.lock(c)
	}
	h.next(cl, c)
}

// next opens one more topic of the plan to mochi, one that has a message, while the tree is
// locked. mochi tells of what it has sent, but not of what it could not: once a client is gone
// it would try the rest of the plan with the tree locked.
func (h *replay) next(cl *mqtt.Client, c *conn) {
	r := &c.replay
	if r.open != nil { // a topic of mochi's own was sent before it
		if h.sends(cl, r.open) {
			return
		}
		r.open.RetainHandling, r.open = 2, nil
	}
	for n := 1; len(r.left) > 0 && !cl.Closed() && !c.gone.Load(); n++ {
		f := &r.left[0]
		r.left = r.left[1:]
		if h.sends(cl, f) {
			f.RetainHandling, r.open = 0, f
			return
		}
		if n%searchTopics == 0 { // so many were cleared meanwhile
			c.spent(0)
			h.guard.unlock(c)
			h.guard.lock(c)
		}
	}
}

// sends reports whether there is a message that the client is to be sent.
func (h *replay) sends(cl *mqtt.Client, f *packets.Subscription) bool {
	pk, there := h.server.Topics.Retained.Get(f.Filter)
	return there && (!f.NoLocal || pk.Origin != cl.ID)
}

// OnRetainPublished comes after each retained message that was queued for the client,
// in its reading goroutine. It lets others retain.
func (h *replay) OnRetainPublished(cl *mqtt.Client, pk packets.Packet) {
	c := connOf(cl)
	if c == nil || !c.replay.locked {
		return
	}
	c.replay.sent++
	c.replay.bytes += weight(pk)
	if head, _, _ := strings.Cut(pk.TopicName, "/"); !isSys(head) {
		c.replay.open = nil
	}
	h.guard.unlock(c)
	c.goOn()
	c.yield(packets.Publish, len(pk.Payload))
	if h.full(cl, c) {
		h.awaitReader(cl, c)
	}
	h.guard.lock(c)
	h.next(cl, c)
}

// OnPacketProcessed ends the reading, and then lets others go on: with the tree locked, whoever
// retains would wait for all who have their turn before this client has it again.
func (h *replay) OnPacketProcessed(cl *mqtt.Client, pk packets.Packet, err error) {
	c := connOf(cl)
	if c == nil {
		return
	}
	if pk.FixedHeader.Type == packets.Subscribe {
		h.end(cl, c, err)
	}
	c.giveTurn()
	c.yield(pk.FixedHeader.Type, len(pk.TopicName)+len(pk.Payload))
}

// end ends the reading. A client that was not sent all is disconnected: it subscribes again.
func (h *replay) end(cl *mqtt.Client, c *conn, err error) {
	missing := err == nil && (c.replay.open != nil || len(c.replay.left) > 0)
	h.guard.endReading(c)
	if missing && !cl.Closed() && !c.gone.Load() {
		h.access.tellLoss(cl, "max-unsent", "client disconnected: it could not be sent all retained messages that it subscribed to")
		_ = c.Close() // and not Stop, which tells of no will here
	}
}

// full reports whether too much waits for the client to read it, of the plan or of all that is
// sent to it: what has no place in its queue is dropped.
func (h *replay) full(cl *mqtt.Client, c *conn) bool { return c.replay.full(c) || h.crowded(cl) }

func (h *replay) crowded(cl *mqtt.Client) bool { return int64(queued(cl)) >= h.limits.highWater() }

// awaitReader waits for a client that lags: for what others send to it no longer than for one
// that reads nothing.
func (h *replay) awaitReader(cl *mqtt.Client, c *conn) {
	c.giveTurn()
	defer c.takeTurn()
	begun := time.Now()
	seen, since := c.takenMessages.Load(), begun
	for (c.replay.full(c) || h.crowded(cl) && time.Since(begun) < h.limits.WriteTimeout) && !cl.Closed() && !c.gone.Load() {
		time.Sleep(200 * time.Microsecond)
		if n := c.takenMessages.Load(); n != seen {
			seen, since = n, time.Now()
		} else if time.Since(since) > h.limits.WriteTimeout {
			h.access.tellLoss(cl, "write-timeout", "client disconnected: it does not read the retained messages that it subscribed to")
			c.stalled.Store(true)
			c.replay.left = nil
			_ = c.Close()
			return
		}
	}
}

// full reports whether too much of the plan waits for the client to read it. Other messages of
// its queue leave it in between, so it may be somewhat more.
func (r *replaying) full(c *conn) bool {
	return r.sent-(c.takenMessages.Load()-r.atStart.messages) > replayMessages ||
		r.bytes-(c.takenBytes.Load()-r.atStart.bytes) > replayBytes
}

// weight is what a message in a queue holds: payload and properties.
func weight(pk packets.Packet) int64 { return int64(len(pk.Payload) + propertiesSize(&pk.Properties)) }
