package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"padme/qosmutex"
)

// drift bounds how fast or slow the clocks of a gateway and of a client run.
const drift = 0.01

// raiseOverlap is how long a request stays in line with its old priority after it was
// raised: the new one is in line by then, so the client is never out of it.
const raiseOverlap = time.Second

func closing(err error) bool { return errors.Is(err, qosmutex.ErrClosed) }

// key names a ticket among those of its client.
type key struct{ session, id string }

// ticket is one client's request, from its acquire until it is forgotten. Only the
// desk's goroutine touches it.
type ticket struct {
	key
	client   *client
	arrived  uint64 // order of arrival
	resource string // asked for, then granted
	priority int64
	try      bool
	lease    time.Duration
	giveUpAt time.Time // when it has waited long enough; zero: never

	outcome Outcome
	reason  Reason
	detail  string
	hold    *qosmutex.Hold // while granted
	fence   uint64

	heard time.Time   // when the last acquire or renew came
	sent  json.Number // what that said of the client's clock
	told  time.Time   // until when the client may believe that it is inside
	gone  bool        // nobody renews it any more

	tries []*attempt // the last one counts; the others are about to be given up
}

// attempt is one request of the gateway's participant.
type attempt struct {
	ticket *ticket
	cancel context.CancelFunc
	retire time.Time // give it up then; zero: never
}

// news is what an attempt has to say: a hold, an error, or with over the end of the
// hold.
type news struct {
	*attempt
	hold *qosmutex.Hold
	err  error
	over bool
}

func (t *ticket) live() bool { return t.outcome == Waiting || t.outcome == Granted }

// ends is when the ticket ends if nothing more is heard of the client; zero: never.
func (t *ticket) ends() time.Time {
	end := t.heard.Add(t.lease)
	switch {
	case t.outcome == Granted && t.gone && t.told.Before(end):
		end = t.told
	case t.outcome == Waiting && !t.giveUpAt.IsZero() && t.giveUpAt.Before(end):
		end = t.giveUpAt
	}
	return end
}

// wakeAt is when the desk has to look after a live ticket.
func (t *ticket) wakeAt() time.Time {
	at := t.ends()
	for _, a := range t.tries {
		if !a.retire.IsZero() && a.retire.Before(at) {
			at = a.retire
		}
	}
	return at
}

// answer tells how the ticket stands. Its validity counts from the request with the
// token sent, which came at base. It notes what the client may believe from now on.
func (t *ticket) answer(base time.Time, sent json.Number) Answer {
	a := Answer{
		ID: t.id, Session: t.session, Outcome: t.outcome, Reason: t.reason, Detail: t.detail,
		Resource: t.resource, Priority: &t.priority, Sent: sent,
	}
	if t.fence != 0 {
		a.Fence = strconv.FormatUint(t.fence, 10)
	}
	if !t.live() {
		return a
	}
	end := t.ends()
	if t.outcome == Granted {
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

// validity is for how many milliseconds of a clock that may be slow a span lasts that
// was measured by one that may be fast.
func validity(span time.Duration) int64 {
	return max(0, time.Duration(float64(span)*(1-drift)/(1+drift)).Milliseconds())
}
