package gateway

import (
	"context"
	"fmt"
	"time"

	"padme/qosmutex/jsonlock"
)

// A gateway has a lock topic open from when a client first names it. It bounds them as the
// server does that opens them for members, with half of its limits (see
// qosmutex.TopicLimits): so clients that name many leave the others room.

// letGoAfter is for how long the clients of a topic must have been silent that is let go of
// to make room.
const letGoAfter = time.Minute

// mostTopics is how many topics are open at most, and of one client.
func (g *gateway) mostTopics() (total, perClient int) {
	l := g.server.TopicLimits()
	return max(l.Total/2, 1), max(l.PerUser/2, 1)
}

// topic returns a lock topic and opens it if need be, for a client that names it.
func (g *gateway) topic(ctx context.Context, name, client string) (*topic, *jsonlock.Refusal) {
	now := time.Now()
	t, limit, refusal := g.openTopic(ctx, name, client, now)
	if limit != noLimit {
		g.beyond(limit, name, client, now)
	}
	return t, refusal
}

// openTopic does that, and says which limit it is that a refusal is for.
func (g *gateway) openTopic(ctx context.Context, name, client string, now time.Time) (*topic, int, *jsonlock.Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.topics[name]; t != nil {
		t.used.Store(now.UnixNano())
		return t, noLimit, nil
	}
	if !g.offers(name) || g.topics == nil {
		return nil, noLimit, &jsonlock.Refusal{Reason: jsonlock.NotOffered}
	}
	if len(g.only) == 0 {
		if limit, refusal := g.mayName(client, now); refusal != nil {
			return nil, limit, refusal
		}
		g.named[client]++
	}
	t := newTopic(g, name)
	t.by = client
	t.resumes.Store(g.resume[name])
	t.used.Store(now.UnixNano())
	g.topics[name] = t
	ctx, t.end = context.WithCancel(ctx)
	g.wg.Go(func() { t.run(ctx) })
	return t, noLimit, nil
}

// mayName reports why a client cannot have another topic opened by naming it, and which limit
// says so. The caller holds mu.
func (g *gateway) mayName(client string, now time.Time) (limit int, refusal *jsonlock.Refusal) {
	total, perClient := g.mostTopics()
	if client != "" && g.named[client] >= max(perClient/16, 1) && perClient < total {
		total -= total / 4 // the rest is for clients that have few
	}
	if len(g.topics) >= total-total/16 {
		g.makeRoom("", now)
	}
	if client != "" && g.named[client] >= perClient-perClient/16 {
		g.makeRoom(client, now)
	}
	switch {
	case client != "" && g.named[client] >= perClient:
		return limitClientTopics, tooMany("you have named %d lock topics, the most at a time: use resources of one, or ask again in a while", perClient)
	case len(g.topics) >= total:
		return limitTopics, tooMany("the server is busy: it has %d lock topics already, and may have no more for you", len(g.topics))
	}
	return noLimit, nil
}

func tooMany(detail string, args ...any) *jsonlock.Refusal {
	return &jsonlock.Refusal{Reason: jsonlock.TooMany, Detail: fmt.Sprintf(detail, args...)}
}

// idle reports whether the clients of a topic have asked for nothing for that long.
func (t *topic) idle(now time.Time, long time.Duration) bool {
	return t.live.Load() == 0 && now.UnixNano()-t.used.Load() > int64(long)
}

// makeRoom lets go of the lock topic of a client, or of anybody's, that was unused for
// longest. The caller holds mu.
func (g *gateway) makeRoom(client string, now time.Time) {
	var oldest *topic
	for _, t := range g.topics {
		if (client == "" || t.by == client) && t.idle(now, letGoAfter) && (oldest == nil || t.used.Load() < oldest.used.Load()) {
			oldest = t
		}
	}
	if oldest != nil {
		g.letGo(oldest)
	}
}

// giveUpIdle lets go of the topics that nobody has used for long.
func (g *gateway) giveUpIdle(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.topics {
		if t.idle(now, g.server.TopicLimits().Idle) {
			g.letGo(t)
		}
	}
}

// letGo ends the service of a lock topic, unless it was given by name. If it is asked for
// again, another one begins. The caller holds mu.
func (g *gateway) letGo(t *topic) {
	if len(g.only) > 0 {
		return
	}
	delete(g.topics, t.name)
	if g.named[t.by]--; g.named[t.by] <= 0 {
		delete(g.named, t.by)
	}
	t.end()
}
