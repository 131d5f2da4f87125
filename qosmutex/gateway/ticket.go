package gateway

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// drift bounds how fast or slow the clocks of a gateway and of a client run.
const drift = 0.01

// key names a ticket among those of its client.
type key struct{ session, id string }

// ticket is one client's request, from its acquire until it is forgotten. Only the
// topic's goroutine touches it.
type ticket struct {
	key
	client   *client
	arrived  uint64 // order of arrival
	resource string // asked for, then granted
	priority int64
	try      bool // wait_ms is 0
	lease    time.Duration
	renews   bool          // the client stops when its hold is not valid any more
	giveUpAt time.Time     // when it has waited long enough; zero: never
	within   time.Time     // it is to be granted by then; zero: no deadline
	intended time.Duration // how long the client says it will hold; 0: unknown
	warning  string        // "": there is none, or the lock topic is not open yet
	warned   bool          // the client was told the warning

	outcome jsonlock.Outcome
	reason  jsonlock.Reason
	detail  string
	hold    *qosmutex.Hold // while granted
	fence   uint64

	heard time.Time   // when the last acquire or renew came
	sent  json.Number // what that said of the client's clock
	told  time.Time   // until when the client may believe that it is inside
	again time.Time   // tell it then that it may for longer, if so; zero: it knows
	gone  bool        // the client has lost its connection, and has not renewed since
	final bool        // gone: nothing renews it any more

	parked   bool      // it waits for the lock topic to be open
	unfollow func()    // of hold
	due      time.Time // among the deadlines
	index    int       // among the deadlines, from 1

	attempt *attempt // that waits; nil: none does
}

// attempt is one request of the gateway's participant for a ticket.
type attempt struct {
	ticket  *ticket
	cancel  context.CancelFunc
	request *qosmutex.Request // nil: it does not wait in line
}

// news is what an attempt has to say: a hold, an error, or with over the end of the
// hold.
type news struct {
	*attempt
	hold *qosmutex.Hold
	err  error
	over bool
}

func (t *ticket) live() bool { return t.outcome == jsonlock.Waiting || t.outcome == jsonlock.Granted }

// ends is when the ticket ends if nothing more is heard of the client: with its lease, or
// before, when the client has given its hold up.
func (t *ticket) ends() time.Time {
	end := t.heard.Add(t.lease)
	switch {
	case t.outcome == jsonlock.Granted && (t.gone || t.renews):
		end = t.noMore(end)
	case t.outcome == jsonlock.Waiting && !t.giveUpAt.IsZero() && t.giveUpAt.Before(end):
		end = t.giveUpAt
	}
	return end
}

// noMore returns end, or when the client stops to believe what it was told, if that is before.
func (t *ticket) noMore(end time.Time) time.Time {
	if !t.told.IsZero() && t.told.Before(end) {
		return t.told
	}
	return end
}

// wakeAt is when the gateway has to look after a live ticket.
func (t *ticket) wakeAt() time.Time {
	at := t.ends()
	if !t.again.IsZero() && t.again.Before(at) {
		at = t.again
	}
	return at
}

func (t *ticket) unlock() {
	if t.hold != nil {
		t.unfollow()
		_ = t.hold.Unlock()
		t.hold = nil
	}
}

// answer tells how the ticket stands. Its validity counts from the request with the
// token sent, which came at base. It notes what the client may believe from now on: with op
// query, which renews nothing, a client that stops by itself may not believe for longer.
func (t *ticket) answer(op jsonlock.Op, base time.Time, sent json.Number) jsonlock.Answer {
	a := jsonlock.Answer{
		ID: t.id, Session: t.session, Outcome: t.outcome, Reason: t.reason, Detail: t.detail,
		Op: op, Resource: t.resource, Priority: &t.priority, Sent: sent,
	}
	if t.fence != 0 {
		a.Fence = strconv.FormatUint(t.fence, 10)
	}
	if !t.live() {
		return a
	}
	end := t.ends()
	if t.outcome == jsonlock.Granted {
		if end = t.heard.Add(t.lease); t.gone || t.renews && op == jsonlock.Query {
			end = t.noMore(end)
		}
		if left := time.Now().Add(t.hold.Remaining()); left.Before(end) {
			end = left
		}
		if end.After(t.told) {
			t.told = end
		}
	}
	valid := validity(end.Sub(base))
	a.ValidMS = &valid
	return a
}

// warn returns the warning of a live ticket, for an answer that tells it.
func (t *ticket) warn() string {
	if !t.live() {
		return ""
	}
	t.warned = t.warning != ""
	return t.warning
}

// validity is for how many milliseconds of a clock that may be slow a span lasts that
// was measured by one that may be fast.
func validity(span time.Duration) int64 {
	return max(0, time.Duration(float64(span)*(1-drift)/(1+drift)).Milliseconds())
}
