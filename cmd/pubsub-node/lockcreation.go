package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// creationTakes is how long a gateway may take that first looks for a root of the lock.
const creationTakes = 5 * time.Second

// askAfter is when a gateway is asked for a lock: after the message that names the TTL of
// this participant, which the lock gets if the gateway creates it.
const askAfter = 100 * time.Millisecond

// openMember opens a lock that has a root, or gets one within creation. A busy root is given
// some time to answer. A gateway that creates locks for its clients alone is asked meanwhile
// as they do, and tells what is wrong.
func openMember(ctx context.Context, p *pubsub.Participant, name string, creation time.Duration, opts ...qosmutex.Option) (*qosmutex.Topic, error) {
	asking, cancel := context.WithCancel(ctx)
	c := &creators{serving: map[string]bool{}}
	var running sync.WaitGroup
	running.Go(func() { c.ask(asking, p, name) })
	running.Go(func() { c.follow(asking, p) })
	defer running.Wait()
	defer cancel()
	opening, end := context.WithTimeoutCause(ctx, creation, fmt.Errorf("no answer within %v", creation))
	defer end()
	topic, err := qosmutex.Open(opening, p, name, opts...)
	switch {
	case errors.Is(err, qosmutex.ErrNoRoot):
		return nil, c.explain(err, name)
	case errors.Is(err, qosmutex.ErrTimeout) && ctx.Err() == nil: // there is a root
		return qosmutex.Open(ctx, p, name, opts...)
	}
	return topic, err
}

// creators are those that may create a lock that has no root.
type creators struct {
	mu      sync.Mutex
	serving map[string]bool // they serve locks, by what they say of themselves
	opens   string          // the one that serves this lock; empty: none has answered
	trouble string          // why nobody can grant it, as that one says; empty: it does not
}

// ask has a gateway open a lock, again and again until ctx ends.
func (c *creators) ask(ctx context.Context, p *pubsub.Participant, name string) {
	stop, err := p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", name, "client", p.ID(), "answer"}, c.answered)
	if err == nil { // else a broker with users does not let this one hear
		defer stop()
	}
	show, query := jsonlock.New(jsonlock.Show), jsonlock.New(jsonlock.Query) // one is answered once the lock is open, the other one at once
	query.ID = "create"
	timer := time.NewTimer(askAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for _, r := range []jsonlock.Request{show, query} {
			payload, _ := r.Encode()                                                                           // all of it is known here
			_ = p.PublishRaw(pubsub.Main, []string{"lock", name, "client", p.ID(), "request"}, payload, false) // what is lost is said again
		}
		timer.Reset(time.Second)
	}
}

func (c *creators) answered(m pubsub.RawMessage) {
	a, err := jsonlock.DecodeAnswer(m.Payload)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens = a.Gateway
	if a.Reason == jsonlock.NotReady {
		c.trouble = a.Detail
	} else if a.Op == jsonlock.Show { // the other answer says nothing about the lock
		c.trouble = ""
	}
}

// follow notes who serves locks, until ctx ends.
func (c *creators) follow(ctx context.Context, p *pubsub.Participant) {
	for presence, err := range p.Peers(ctx) {
		if err != nil {
			return // they are not known
		}
		c.mu.Lock()
		if presence.Alive && presence.UserData[jsonlock.ServesKey] == jsonlock.ServesLocks {
			c.serving[presence.ID] = true
		} else {
			delete(c.serving, presence.ID)
		}
		c.mu.Unlock()
	}
}

// explain says why there was no root in time. err says so where nobody serves locks.
func (c *creators) explain(err error, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.trouble != "":
		return &qosmutex.NotReadyError{Topic: name, Why: c.trouble}
	case c.opens != "":
		return &qosmutex.NotReadyError{Topic: name, Why: fmt.Sprintf("%s is becoming its root: this takes up to %v, so give a longer --timeout", c.opens, creationTakes)}
	case len(c.serving) > 0:
		return fmt.Errorf("%w: nobody has answered for lock %s, also none of those that serve locks, %s: these may have begun just now, be busy, or serve other locks only, as \"pubsub-node serve NAME\" does: give a longer --timeout, or serve this lock, too",
			qosmutex.ErrNoRoot, name, strings.Join(slices.Sorted(maps.Keys(c.serving)), ", "))
	}
	return err
}
