package broker

import (
	"bytes"
	"log/slog"
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
	access *access
	guard  *retainGuard
	limits Limits
	log    *slog.Logger
}

const (
	// replayMessages and replayBytes are how many retained messages may wait for one
	// client to read them, of the 8192 messages that mochi can queue for it.
	replayMessages = 2048
	replayBytes    = 4 << 20
)

func (h *replay) ID() string { return "replay" }

func (h *replay) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPacketEncode, mqtt.OnRetainPublished}, b) >= 0
}

// replaying is the part of a connection that belongs to the SUBSCRIBE in process. Only the
// client's reading goroutine touches it.
type replaying struct {
	asked   int // filters in the packet
	plan    []packets.Subscription
	at      map[string]int // in plan, by topic
	locked  bool           // retainGuard's tree, for reading
	sent    int64          // messages so far
	bytes   int64
	atStart taken
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
	quota := h.access.quota
	filters := h.wanted(cl, pk.Filters)
	mark := quota.mark()
	for _, f := range filters { // the long part, while others may retain
		c.search(func() { h.add(cl, c, f, quota.matching(f.Filter)) })
	}
	h.guard.tree.RLock()
	c.replay.locked = true
	added, all := quota.addedSince(mark)
	for _, f := range filters {
		if all {
			added = quota.matching(f.Filter)
		}
		h.add(cl, c, f, added)
	}
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

// add plans to send the topics that a filter matches and the client may read.
func (h *replay) add(cl *mqtt.Client, c *conn, f packets.Subscription, topics []string) {
	for _, topic := range topics {
		if !matches(f.Filter, topic) {
			continue
		}
		if i, twice := c.replay.at[topic]; twice {
			p := &c.replay.plan[i]
			p.NoLocal = p.NoLocal && f.NoLocal
		} else if h.access.OnACLCheck(cl, topic, false) {
			c.replay.at[topic] = len(c.replay.plan)
			c.replay.plan = append(c.replay.plan, packets.Subscription{Filter: topic, NoLocal: f.NoLocal})
		}
	}
}

// OnSubscribed puts the topics in, now that mochi has subscribed to the rest.
func (h *replay) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	c := connOf(cl)
	if c == nil || c.replay.asked == 0 {
		return
	}
	c.replay.locked = false
	h.guard.tree.RUnlock()
	if codes[0] == packets.ErrPacketIdentifierInUse.Code {
		return
	}
	for i, topic := range c.replay.plan {
		pk.Filters[c.replay.asked+i], codes[c.replay.asked+i] = topic, packets.CodeSuccess.Code
	}
}

// OnPacketEncode leaves the answers to what the client has not asked out.
func (h *replay) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if c := connOf(cl); c != nil && pk.FixedHeader.Type == packets.Suback && len(pk.ReasonCodes) > c.replay.asked {
		pk.ReasonCodes = pk.ReasonCodes[:c.replay.asked]
	}
	return pk
}

// OnRetainPublished comes after each retained message that was queued for the client,
// in its reading goroutine. It lets others retain, and waits for a client that lags.
func (h *replay) OnRetainPublished(cl *mqtt.Client, pk packets.Packet) {
	c := connOf(cl)
	if c == nil || !c.replay.locked {
		return
	}
	c.replay.sent++
	c.replay.bytes += weight(pk)
	h.guard.tree.RUnlock()
	defer h.guard.tree.RLock()
	c.goOn()
	c.yield(packets.Publish)
	if !c.replay.full(c) {
		return
	}
	seen, since := c.takenMessages.Load(), time.Now()
	for c.replay.full(c) && !cl.Closed() {
		time.Sleep(200 * time.Microsecond)
		if n := c.takenMessages.Load(); n != seen {
			seen, since = n, time.Now()
		} else if time.Since(since) > h.limits.WriteTimeout {
			h.log.Warn("client disconnected: it does not read the retained messages that it subscribed to", "client", cl.ID)
			c.stalled.Store(true)
			cl.Stop(packets.ErrQuotaExceeded)
		}
	}
	c.began = time.Now() // a slow network costs the broker nothing
}

// full reports whether too much waits for the client to read it. Other messages of its
// queue leave it in between, so it may be somewhat more.
func (r *replaying) full(c *conn) bool {
	return r.sent-(c.takenMessages.Load()-r.atStart.messages) > replayMessages ||
		r.bytes-(c.takenBytes.Load()-r.atStart.bytes) > replayBytes
}

// weight is what a message in a queue holds: payload and properties.
func weight(pk packets.Packet) int64 { return int64(len(pk.Payload) + propertiesSize(&pk.Properties)) }
