package qosmutex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

func jsonNumber(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// heard handles an answer. It runs on the goroutine that reads from the network.
func (c *Client) heard(m pubsub.RawMessage) {
	if c.others(m.Payload) {
		return
	}
	a, err := jsonlock.DecodeAnswer(m.Payload)
	if err == nil && m.Retained {
		err = errors.New("qosmutex: an answer that was retained, from who knows when")
	}
	if err != nil {
		c.ignore(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	switch k := c.calls[a.ID]; {
	case a.ID == "" && a.Session == "" && a.Outcome == jsonlock.Denied: // too fast, or too many clients
		for _, k := range c.calls {
			c.postpone(k, &a)
		}
	case a.Session != c.session, k == nil: // of another process of this user, or of what is over
	default:
		if err := c.answered(k, &a, now); err != nil {
			c.ignore(err)
			return
		}
		c.server = a.Gateway
	}
}

// others reports, without decoding it, that an answer is for another session: all Clients of
// a participant in one lock topic hear all answers.
func (c *Client) others(payload []byte) bool {
	return bytes.Contains(payload, []byte(`"session"`)) && !bytes.Contains(payload, []byte(c.session))
}

// ignore counts an answer that cannot be used.
func (c *Client) ignore(err error) {
	c.count.ignored.Add(1)
	c.log.Debug("an answer was ignored", "lock", c.name, "error", err)
}

// turnedAway reports whether the server was too busy to look at what was asked.
func turnedAway(a *jsonlock.Answer) bool {
	if a.Outcome != jsonlock.Denied {
		return false
	}
	switch a.Reason {
	case jsonlock.TooMany, jsonlock.TooFast, jsonlock.Overload:
		return true
	}
	return false
}

// postpone leaves a call to be repeated: there is a server, and it is busy.
func (c *Client) postpone(k *call, a *jsonlock.Answer) {
	k.known, k.silent = true, 0
	k.busy = a.Detail
	if k.busy == "" {
		k.busy = "the server is busy"
	}
}

// answered handles what a server says of a call. An error means that it cannot be meant.
func (c *Client) answered(k *call, a *jsonlock.Answer, now protocol.Time) error {
	if turnedAway(a) {
		c.postpone(k, a)
		return nil
	}
	c.warnedOf(k.asked, a.Warning)
	switch phase := k.hold.phase.Load(); {
	case k.releasing:
		if a.Final() && (a.Outcome != jsonlock.Denied || a.Op == jsonlock.Acquire || a.Op == "") {
			c.drop(k)
		}
		return nil
	case phase == held:
		return c.answeredInside(k, a, now)
	case phase == waiting:
		return c.answeredWaiting(k, a, now)
	}
	return nil // it is lost: Unlock releases it
}

// validity is until when an answer may be believed, by the clock that its Sent is of.
func (k *call) validity(a *jsonlock.Answer, now protocol.Time) (sent, until protocol.Time, err error) {
	ms, err := strconv.ParseInt(a.Sent.String(), 10, 64)
	sent = protocol.Time(ms) * protocol.Time(time.Millisecond)
	if err != nil || sent < k.first || sent > now {
		return 0, 0, fmt.Errorf("qosmutex: an answer to what was sent at %q, and nothing was", a.Sent)
	}
	return sent, sent + protocol.Time(min(a.Valid(), clientLease)), nil
}

// renewAt sets when a call that was answered is renewed: a third of what it is valid for
// after the sending.
func (c *Client) renewAt(k *call, sent, until, now protocol.Time) {
	k.known, k.silent, k.tries, k.busy = true, 0, 0, ""
	c.at(k, max(sent+(until-sent)/3, now+leastPause))
}

func (c *Client) answeredWaiting(k *call, a *jsonlock.Answer, now protocol.Time) error {
	switch a.Outcome {
	case jsonlock.Waiting:
		sent, until, err := k.validity(a, now)
		if err != nil {
			return err
		}
		k.position = a.Position
		if a.Priority != nil {
			k.hold.priority = *a.Priority
		}
		c.renewAt(k, sent, until, now)
		if a.Reason == jsonlock.NotReady {
			k.busy = a.Detail
		}
		if k.priority < k.hold.priority { // it was raised before it was in line
			c.say(k, now)
		}
	case jsonlock.Granted:
		return c.enter(k, a, now)
	case jsonlock.Denied:
		if a.Op == jsonlock.Raise {
			k.priority = k.hold.priority
			k.known, k.silent = true, 0
			return nil
		}
		c.fail(k, c.denied(k, a))
		c.drop(k)
	default:
		if a.Outcome == jsonlock.Lost && a.Reason == jsonlock.GoneAway && k.losses == c.losses {
			c.fail(k, fmt.Errorf("%w: an operator ended the request for %s", ErrCanceled, c.what(k.asked)))
			c.drop(k)
			return nil
		}
		// The server ended, or had to take us for gone: back into line.
		k.known, k.silent, k.position = true, 0, 0
		c.log.Info("asking again", "lock", c.name, "resource", k.asked, "outcome", a.Outcome, "reason", a.Reason)
		c.begin(k, now)
	}
	return nil
}

// enter lets a waiting request in.
func (c *Client) enter(k *call, a *jsonlock.Answer, now protocol.Time) error {
	sent, until, err := k.validity(a, now)
	if err != nil {
		return err
	}
	h := k.hold
	if k.asked != Any && a.Resource != k.asked {
		return fmt.Errorf("qosmutex: %q was asked for, and %q granted", k.asked, a.Resource)
	}
	c.renewAt(k, sent, until, now)
	if until <= now { // it took too long: ask for what may be believed
		return nil
	}
	h.resource, h.entered = a.Resource, time.Now()
	h.fence, _ = a.FenceNumber() // DecodeAnswer has read it
	if a.Priority != nil {
		h.priority = *a.Priority
	}
	c.count.entries.Add(1)
	h.until.Store(int64(until))
	h.phase.Store(held)
	close(h.ready)
	return nil
}

// answeredInside renews a hold or ends it.
func (c *Client) answeredInside(k *call, a *jsonlock.Answer, now protocol.Time) error {
	h := k.hold
	switch a.Outcome {
	case jsonlock.Granted:
		sent, until, err := k.validity(a, now)
		if err != nil {
			return err
		}
		if fence, _ := a.FenceNumber(); fence != h.fence {
			h.endHeld(lost)
			c.count.losses.Add(1)
			c.release(k)
			return nil
		}
		if int64(until) > h.until.Load() {
			h.until.Store(int64(until))
		}
		c.renewAt(k, sent, until, now)
	case jsonlock.Waiting, jsonlock.Denied: // only that message is meant; the time tells
	default:
		c.log.Info("hold lost", "lock", c.name, "resource", h.resource, "outcome", a.Outcome, "reason", a.Reason)
		c.lose(k)
	}
	return nil
}

// maxWarnings bounds the resources of which a Client notes what the server says.
const maxWarnings = 64

// warnedOf notes what the server says to a person who locks a resource, and logs the first: it
// is about the lock, and whoever has many names would read it once for each.
func (c *Client) warnedOf(resource, warning string) {
	if warning == "" || c.warnings[resource] == "" && len(c.warnings) >= maxWarnings {
		return
	}
	if len(c.warnings) == 0 {
		c.log.Warn(warning)
	}
	c.warnings[resource] = warning
}

// Warning returns what the server last sent as a warning for people who lock resource, see
// [Topic.Warning]; "" if it sent none.
func (c *Client) Warning(resource string) string {
	if c.made() != nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warnings[resource]
}

// denied is the error of a request that is refused for good.
func (c *Client) denied(k *call, a *jsonlock.Answer) error {
	what := c.what(k.asked)
	switch a.Reason {
	case jsonlock.Busy:
		if k.try {
			return fmt.Errorf("%w: %s is not free now: wait for it with Lock", ErrBusy, what)
		}
		return fmt.Errorf("%w: %s: %s", ErrFull, what, cmp.Or(strings.TrimPrefix(a.Detail, "full: "), "try again later"))
	case jsonlock.NotReady:
		return &NotReadyError{c.name, a.Detail}
	case jsonlock.Undeclared:
		return fmt.Errorf("%w: %s", ErrUndeclared, cmp.Or(strings.TrimPrefix(a.Detail, "undeclared resource: "), what))
	case jsonlock.Unsupported:
		if k.asked == Any {
			return anyInTime(c.name)
		}
	case jsonlock.Unattainable:
		return unattainable(what)
	case jsonlock.Missed:
		return missed(what)
	case jsonlock.BadResource:
		return fmt.Errorf("%w: %s: %s", ErrInvalidName, what, a.Detail)
	}
	return fmt.Errorf("%w: server %q refuses %s: %s: %s", ErrUnsupported, a.Gateway, what, a.Reason, a.Detail)
}
