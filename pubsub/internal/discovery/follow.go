package discovery

import (
	"context"
	"sync"

	"padme/pubsub/internal/level"
)

// What a participant hears of others follows from its own writers and readers: of each
// of their topics what is announced there, and of each participant with whom one of them
// may match, its presence.

// follow is the subscription to the announcements of a topic.
type follow struct {
	refs  int
	ready chan struct{} // closed when it is granted, or has failed
	err   error
	stop  func() // once granted
}

// Follow has the announcements of a topic, or of all topics if that is "", be heard until
// release is called. It blocks until that is granted or ctx ends.
func (d *Directory) Follow(ctx context.Context, topic string) (release func(), err error) {
	let, err := d.attend(ctx, topic)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		let()
	}), nil
}

// attend is Follow, but release is called with d.mu held.
func (d *Directory) attend(ctx context.Context, topic string) (release func(), err error) {
	for {
		d.mu.Lock()
		f := d.follow[topic]
		first := f == nil
		if first {
			f = &follow{ready: make(chan struct{})}
			d.follow[topic] = f
		}
		f.refs++
		d.mu.Unlock()
		release = func() { d.release(topic, f) }
		if first {
			d.subscribe(ctx, topic, f)
		}
		if err := d.await(ctx, f.ready); err != nil {
			d.mu.Lock()
			release()
			d.mu.Unlock()
			return nil, err
		}
		if f.err == nil {
			return release, nil
		}
		if first { // else it may be that only the other one gave up
			return nil, f.err
		}
	}
}

// await blocks until ch is closed. Errors: why ctx or the participant has ended.
func (d *Directory) await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.Context.Done():
		return context.Cause(d.Context)
	}
}

// subscribe makes f granted or failed.
func (d *Directory) subscribe(ctx context.Context, topic string, f *follow) {
	encoded := "+"
	if topic != "" {
		encoded, _ = level.Encode(topic) // it was checked
	}
	stop, err := d.net.Subscribe(ctx, d.Root+"/ep/"+encoded+"/+/+", d.announcementCame)
	d.mu.Lock()
	f.stop, f.err = stop, err
	if err != nil {
		delete(d.follow, topic)
	}
	d.mu.Unlock()
	close(f.ready)
	if err == nil && topic != "" {
		d.askUnlessTold(func() { d.askTopic(topic) })
	}
}

func (d *Directory) release(topic string, f *follow) {
	if f.refs--; f.refs > 0 || f.stop == nil {
		return
	}
	delete(d.follow, topic)
	f.stop()
	d.forgetAll(func(_ *peer, e *Remote) bool { return !d.follows(e.Topic) }, true)
}

// follows reports whether the announcements of a topic are heard.
func (d *Directory) follows(topic string) bool { return d.follow[topic] != nil || d.follow[""] != nil }

// watch is the subscription to the presence of one participant.
type watch struct {
	ctx     context.Context
	stop    context.CancelFunc
	granted chan struct{}      // closed when it is granted, or has failed
	settled bool               // its presence had the time to come
	doubt   context.Context    // of the present doubt, or the last
	calm    context.CancelFunc // ends that
	heard   int                // the connection on which something came from itself
}

// reconsider watches a participant while something of it may match something of ours.
func (d *Directory) reconsider(p *peer) {
	switch wanted := d.wants(p); {
	case wanted && p.watch == nil:
		w, id := &watch{granted: make(chan struct{}), calm: func() {}}, p.ID // p is read with the mutex held
		w.ctx, w.stop = context.WithCancel(d.Context)
		p.watch = w
		if !d.net.Start(func() { d.look(id, w) }) {
			w.stop()
		}
	case !wanted && p.watch != nil:
		p.watch.stop()
		p.watch = nil
		if !d.following {
			d.unknow(p)
		}
	}
	d.prune(p)
}

func (d *Directory) reconsiderAll() {
	for _, p := range d.peers {
		d.reconsider(p)
	}
}

func (d *Directory) wants(p *peer) bool {
	for _, e := range p.endpoints {
		if d.concerns(e) {
			return true
		}
	}
	return false
}

// concerns reports whether e may match something of ours, or would tell why not.
func (d *Directory) concerns(e *Remote) bool {
	if d.survey[e.Topic] > 0 && e.Kind == "writer" {
		return true
	}
	for _, l := range d.topics[e.Topic] {
		if l.Kind != e.Kind && l.QoS.Partition.Meets(e.QoS.Partition) {
			return true
		}
	}
	return false
}

// look follows the presence of a participant until the watch ends, and asks it if nothing
// has come that fits and is from itself.
func (d *Directory) look(id string, w *watch) {
	stop, err := func() {}, error(nil)
	if id == d.ID { // this is subscribed to anyhow
		d.hearSelf()
	} else {
		encoded, _ := level.Encode(id) // it was decoded
		stop, err = d.net.Subscribe(w.ctx, d.Root+"/presence/"+encoded, d.presenceCame)
	}
	close(w.granted)
	if err != nil {
		if w.ctx.Err() == nil {
			d.Log.Warn("a participant with whom something may match cannot be followed: allow to read presences in the broker's access rules", "peer", id, "error", err)
		}
		return
	}
	context.AfterFunc(w.ctx, stop)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doubtAgain(id, w)
}

// hearSelf hears our own birth, which is heard from itself, too.
func (d *Directory) hearSelf() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if birth, alive := d.birth(); alive {
		d.hear(d.ID, birth, false)
	}
}
