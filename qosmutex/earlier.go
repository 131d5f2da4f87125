package qosmutex

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"padme/pubsub"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// A register that was lost, as one in memory is with its process, has no record of a topic
// that had a root before, and whoever creates it again may give it a shorter TTL. What the
// broker retains of that root decides nothing, but it has the new one wait for longer.

// lookBack reads what is retained of an earlier root of the topic until stop is called. A
// candidate writes nothing before it hears itself over the broker, and it is told what is
// retained before that.
func (t *Topic) lookBack(ctx context.Context) (stop func(), err error) {
	if _, own := t.register.(ownRegister); !own && (t.register == nil || t.register.Age() > 2*MaxTTL) {
		return func() {}, nil
	}
	return t.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", t.name, "view"}, func(m pubsub.RawMessage) {
		var v View
		if json.Unmarshal(m.Payload, &v) != nil {
			return
		}
		if ttl := max(v.TTL, v.EarlierTTL); ttl <= MaxTTL.Seconds() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.earlier = max(t.earlier, protocol.Duration(ttl*float64(time.Second)))
		}
	})
}

// longestTTL is that of the topic, or of an earlier root of it.
func (t *Topic) longestTTL() time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(max(t.timing.TTL, t.earlier))
}

// earlierGrace is for how much longer something may last that an earlier root granted than
// what is granted with this TTL. The caller holds mu.
func (t *Topic) earlierGrace(ttl protocol.Duration) time.Duration {
	return time.Duration(t.timing.WithTTL(max(ttl, t.earlier)).Grace() - t.timing.WithTTL(ttl).Grace())
}

// tellAge puts into an answer for how long nobody can hold any more of whom the register does not
// know. The caller holds mu.
func (t *Topic) tellAge(a *lease.Answer) {
	if t.record.candidate.Settled() {
		t.earlier = 0 // that is over
	}
	ttl := cmp.Or(a.Entry.Record.TTL, t.record.candidate.TTL(), t.timing.TTL)
	a.Age -= protocol.Duration(t.earlierGrace(ttl))
}

// waitsForEarlier reports whether this root grants nothing yet because an earlier one had a
// longer TTL. The caller holds mu.
func (t *Topic) waitsForEarlier() bool {
	return t.record.candidate != nil && t.earlier > t.machine.Overview().TTL && t.machine.Overview().Role == protocol.Root && !t.record.candidate.Settled()
}

// warnOfEarlier tells whoever started this root with a shorter TTL. The caller holds mu.
func (t *Topic) warnOfEarlier() {
	if t.waitsForEarlier() {
		t.log.Warn("this root grants nothing before what the one before it may have granted is over, as that had a longer TTL",
			"lock", t.name, "its ttl", time.Duration(t.earlier), "ttl", time.Duration(t.timing.TTL))
	}
}
