package broker

import (
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// delayedWill is a will that waits for its client to come back. mochi would keep it for as
// long as its client has asked, 136 years at most, also without a session that it could
// come back to, and would publish it past quota and retainGuard.
type delayedWill struct {
	cl   *mqtt.Client
	will mqtt.Will
	due  time.Time
}

// takeWillDelay takes the delay of a will over from mochi. A will waits no longer than its
// session does.
func (h *sessions) takeWillDelay(cl *mqtt.Client) {
	w := &cl.Properties.Will
	if c := connOf(cl); c != nil && outlives(cl) {
		c.willDelay = time.Duration(min(w.WillDelayInterval, cl.Properties.Props.SessionExpiryInterval)) * time.Second
	}
	w.WillDelayInterval = 0
}

// delayWill keeps the will of a connection that has ended, and reports whether it is to wait.
func (h *sessions) delayWill(cl *mqtt.Client, will mqtt.Will) bool {
	c := connOf(cl)
	if c == nil || c.willDelay <= 0 {
		return false
	}
	h.willMu.Lock()
	defer h.willMu.Unlock()
	h.wills[cl.ID] = delayedWill{cl, will, time.Now().Add(c.willDelay)}
	return true
}

// forgetWill is for a client that has come back.
func (h *sessions) forgetWill(id string) {
	h.willMu.Lock()
	defer h.willMu.Unlock()
	delete(h.wills, id)
}

// sendWills publishes the wills whose time has come, or whose session is over. That of a
// client which has come back meanwhile is dropped.
func (h *sessions) sendWills(now time.Time) {
	var due []delayedWill
	h.willMu.Lock()
	for id, d := range h.wills {
		current, there := h.b.server.Clients.Get(id)
		back := there && current != d.cl
		if there && !back && now.Before(d.due) {
			continue
		}
		delete(h.wills, id)
		if !back {
			due = append(due, d)
		}
	}
	h.willMu.Unlock()
	for _, d := range due {
		h.b.flow.publishWill(d.cl, d.will)
	}
}
