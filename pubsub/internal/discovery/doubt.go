package discovery

import (
	"context"
	"slices"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/wire"
)

// What a broker keeps of a participant does not show that it lives: no will is published
// of those that were connected when the broker crashed. A writer would wait for the
// acknowledgements of such a reader for ever. So whoever may match one of ours has to be
// heard of once on each of our connections: by a message, which the two ends of a match
// exchange anyhow, or by an announcement that the broker did not keep. Who is not is
// asked, and then taken for dead until it is heard of again.

const (
	// doubtAfter is how long a participant that has announced something may take to show
	// that it is there, until it is asked; each further question waits twice as long.
	doubtAfter = time.Second
	// maxDoubts is how often it is asked. Who is slow to come back among thousands has
	// half a minute.
	maxDoubts = 5
	// answerWait is how long the answer to the last question may take.
	answerWait = 4 * time.Second
)

// Heard follows that an endpoint has written to one of ours, of a topic, "" if there is
// none such any more. An endpoint that is not known to live is asked for.
func (d *Directory) Heard(g wire.GUID, topic string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heardOf(g.Participant)
	if topic != "" && !d.expects(g, topic) { // it knows us, and we missed its announcement
		d.askOne(g.Participant, topic)
	}
}

// expects reports whether an endpoint of a topic is known and alive, or is about to be.
func (d *Directory) expects(g wire.GUID, topic string) bool {
	e := d.find(topic, g)
	if e == nil {
		return false
	}
	p := d.peers[g.Participant]
	return p.counts(e) || p.watch != nil && !p.watch.settled
}

// heardOf notes that something came from a participant itself.
func (d *Directory) heardOf(id string) {
	if p := d.peers[id]; p != nil && p.watch != nil {
		p.watch.heard = d.connection
	}
}

// doubtAgain doubts a participant from now on, whatever has come of an earlier doubt.
func (d *Directory) doubtAgain(id string, w *watch) {
	w.calm()
	ctx, calm := context.WithCancel(w.ctx)
	w.doubt, w.calm = ctx, calm
	if !d.net.Start(func() { defer calm(); d.doubt(ctx, id, w) }) {
		calm()
	}
}

// calmed reports whether a participant is not in doubt.
func (w *watch) calmed() bool { return w.doubt == nil || w.doubt.Err() != nil }

// doubt asks a participant until it is heard of on the present connection and its
// presence fits what it has announced. It blocks until then, or until the connection,
// the watch or this doubt ends.
func (d *Directory) doubt(ctx context.Context, id string, w *watch) {
	ctx, cancel := d.net.Connected(ctx)
	defer cancel()
	for i := range maxDoubts {
		if !wait.Sleep(ctx, doubtAfter<<i) {
			return
		}
		topics := d.doubtful(ctx, id, w)
		if len(topics) == 0 {
			return
		}
		for _, topic := range topics {
			d.askOne(id, topic)
		}
	}
	if wait.Sleep(ctx, answerWait) {
		d.giveUp(ctx, id, w)
	}
}

// doubtful returns the topics in which a participant is to be asked, as something that it
// has announced is in doubt. If there is none, the doubt is over.
func (d *Directory) doubtful(ctx context.Context, id string, w *watch) (topics []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[id]
	if w.settled = true; p == nil || ctx.Err() != nil {
		return nil
	}
	one := ""
	for _, e := range p.endpoints {
		switch {
		case !d.concerns(e):
		case p.awaits(e) && !slices.Contains(topics, e.Topic):
			topics = append(topics, e.Topic)
		case d.silent(w) || !p.counts(e):
			one = e.Topic
		}
	}
	if len(topics) == 0 && one == "" {
		d.waitOver(p)
		w.calm()
		return nil
	}
	if len(topics) == 0 {
		topics = append(topics, one)
	}
	return topics
}

// silent reports whether nothing came from a participant itself. Who could not be answered
// is not told.
func (d *Directory) silent(w *watch) bool { return w.heard != d.connection && !d.Unannounced }

// giveUp takes a participant for dead that does not answer, and what it does not announce
// again for gone.
func (d *Directory) giveUp(ctx context.Context, id string, w *watch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[id]
	if p == nil || ctx.Err() != nil {
		return
	}
	w.calm()
	if d.silent(w) {
		d.Log.Warn("a participant of which the broker knows does not answer, and is taken for dead until it does", "peer", id)
		d.presume(p)
		return
	}
	d.waitOver(p)
}
