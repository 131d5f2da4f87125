package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// removeTakes bounds the removal of a lock topic.
const removeTakes = 5 * time.Second

// removal reports whether a message asks a gateway to let go of a lock topic, and begins
// that if this one is meant. It is asked in the gateway's own name: at a broker with users
// only whoever may serve can do so.
func (g *gateway) removal(ctx context.Context, name string, m *message) bool {
	if !bytes.Contains(m.payload, []byte(jsonlock.Remove)) { // of nearly all
		return false
	}
	r, err := jsonlock.DecodeRequest(m.payload)
	if err != nil || r.Op != jsonlock.Remove {
		return false
	}
	if m.client != g.p.ID() || !g.offers(name) {
		return true // not ours
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.retained || g.topics == nil || g.removing[name] || len(g.removing) >= maxRemovals {
		return true // if it is meant, it is said again
	}
	g.removing[name] = true
	g.wg.Go(func() { g.remove(ctx, name, &r) })
	return true
}

// maxRemovals is how many lock topics are removed at a time.
const maxRemovals = 16

func (g *gateway) remove(ctx context.Context, name string, r *jsonlock.Request) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.removing, name)
	}()
	ctx, cancel := context.WithTimeout(ctx, removeTakes)
	defer cancel()
	a := jsonlock.Answer{ID: r.ID, Session: r.Session, Op: r.Op, Sent: r.Sent, Outcome: jsonlock.Released}
	err := g.server.Remove(ctx, name)
	if err == nil {
		g.mu.Lock()
		if t := g.topics[name]; t != nil {
			g.letGo(t)
		}
		g.mu.Unlock()
	} else {
		a.Outcome, a.Reason, a.Detail = jsonlock.Denied, jsonlock.Refused, err.Error()
		var used *qosmutex.InUseError
		switch {
		case errors.As(err, &used) && used.Part: // they may let go of it, too
			a.Reason, a.Detail = jsonlock.NotReady, used.By
		case errors.As(err, &used):
			a.Reason, a.Detail = jsonlock.Busy, used.By
		}
		g.count.refused.WithLabelValues(string(a.Reason)).Inc()
	}
	g.send(name, g.p.ID(), a)
}
