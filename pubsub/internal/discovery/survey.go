package discovery

import (
	"context"
	"time"
)

// An Entry is an endpoint of the domain. Alive is false if its participant is gone without
// having withdrawn it.
type Entry struct {
	*Remote
	Alive bool
}

// All returns all endpoints of the domain that the broker knows, in no order. It blocks
// until the broker has told all that it keeps, or ctx ends.
func (d *Directory) All(ctx context.Context) ([]Entry, error) {
	first, err := d.followAll(ctx)
	if err == nil {
		err = d.caughtUp(ctx)
	}
	if err == nil && first && !d.Unannounced && !d.tells() {
		d.Ask()
		err = d.caughtUp(ctx)
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Entry
	for _, p := range d.peers {
		for _, e := range p.endpoints {
			all = append(all, Entry{e, p.counts(e)})
		}
	}
	return all, nil
}

// followAll follows the announcements of all topics and the presences of all participants
// from then on; it reports whether it is the first to do so.
func (d *Directory) followAll(ctx context.Context) (first bool, err error) {
	if err := d.turn.Take(ctx); err != nil {
		return false, err
	}
	defer d.turn.Give()
	if d.swap(&d.everyone, true) {
		return false, nil
	}
	release, err := d.Follow(ctx, "")
	if err == nil {
		if err = d.followEverybody(ctx); err == nil {
			return true, nil
		}
		release()
	}
	d.swap(&d.everyone, false)
	return false, err
}

// Survey blocks until it is known which writers of a topic live, before there is a
// reader. done is to be called once there is.
func (d *Directory) Survey(ctx context.Context, topic string) (done func(), err error) {
	d.seek(topic, 1)
	release, err := d.Follow(ctx, topic)
	done = func() {
		d.seek(topic, -1)
		if release != nil {
			release()
		}
	}
	if err == nil {
		err = d.MetAll(ctx)
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// seek counts the readers-to-be that look for the writers of a topic.
func (d *Directory) seek(topic string, more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.survey[topic] += more; d.survey[topic] == 0 {
		delete(d.survey, topic)
	}
	d.reconsiderAll()
}

// MetAll blocks until everybody is matched of whom the broker tells, and what it keeps of
// them has arrived.
func (d *Directory) MetAll(ctx context.Context) error {
	if err := d.caughtUp(ctx); err != nil {
		return err
	}
	watches := d.watches()
	for _, w := range watches {
		if err := d.await(ctx, w.granted); err != nil {
			return err
		}
	}
	if len(watches) == 0 { // no presence has to come
		return nil
	}
	return d.caughtUp(ctx)
}

// MetAllOf is MetAll for the endpoints of a topic. At a broker that returns nothing for a
// wildcard they are asked, and have a while to answer.
func (d *Directory) MetAllOf(ctx context.Context, topic string) error {
	if err := d.MetAll(ctx); err != nil || d.tells() {
		return err
	}
	d.askTopic(topic)
	if err := d.pause(ctx, recallWait); err != nil {
		return err
	}
	return d.MetAll(ctx)
}

func (d *Directory) watches() (all []*watch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.peers {
		if p.watch != nil {
			all = append(all, p.watch)
		}
	}
	return all
}

// quietFor is how long nothing must come before what a broker retains counts as read by
// a participant that cannot write to itself, and longestQuiet how long that may take.
const (
	quietFor     = 250 * time.Millisecond
	longestQuiet = 3 * time.Second
)

// caughtUp blocks until all has arrived that the broker keeps for the subscriptions
// granted so far, as far as that can be found out.
func (d *Directory) caughtUp(ctx context.Context) error {
	if !d.Unannounced {
		return d.net.CaughtUp(ctx)
	}
	last := d.came()
	for begun := time.Now(); time.Since(begun) < longestQuiet; {
		if err := d.pause(ctx, quietFor); err != nil {
			return err
		}
		now := d.came()
		if now == last {
			return nil
		}
		last = now
	}
	return nil
}

// came counts the announcements and presences that have come.
func (d *Directory) came() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

// pause waits. Errors: why ctx or the participant has ended.
func (d *Directory) pause(ctx context.Context, long time.Duration) error {
	over := make(chan struct{})
	timer := time.AfterFunc(long, func() { close(over) })
	defer timer.Stop()
	return d.await(ctx, over)
}
