package pubsub

import (
	"time"

	"padme/pubsub/internal/wait"
)

// What a broker keeps of a participant does not show that it lives: no will is published
// of those that were connected when the broker crashed. A writer would wait for the
// acknowledgements of such a reader for ever. So whoever may match one of ours has to be
// heard of once on each of our connections: by a letter, which the two ends of a match
// exchange anyhow, or by an announcement that the broker did not keep. Who is not is
// asked, and then taken for dead until it is heard of again.

// hears notes that something came from a participant itself; x.mu is held.
func (x *exchange) hears(participant string) {
	if w := x.watch[participant]; w != nil {
		w.heard = x.connection
	}
}

// hearsOf is hears for those who do not hold x.mu.
func (x *exchange) hearsOf(participant string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hears(participant)
}

// doubtAll begins anew with those who are watched.
func (x *exchange) doubtAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for participant, w := range x.watch {
		x.p.start(func() { x.doubt(participant, w) })
	}
}

// doubt asks a participant until it is heard of on the present connection and its
// presence fits what it has announced. It blocks until then, or until the connection or
// the watch ends.
func (x *exchange) doubt(participant string, w *watch) {
	ctx, cancel := x.p.main.Connected(w.ctx)
	defer cancel()
	for i := range maxDoubts {
		if !wait.Sleep(ctx, doubtAfter<<i) {
			return
		}
		topic, _ := x.doubtful(participant, w)
		if topic == "" {
			return
		}
		x.p.askOne(participant, topic)
	}
	if !wait.Sleep(ctx, answerWait) {
		return
	}
	if _, silent := x.doubtful(participant, w); silent {
		x.p.log.Warn("a participant of which the broker knows does not answer, and is taken for dead until it does", "peer", participant)
		x.p.peers.presume(participant)
	}
}

// doubtful returns a topic in which a participant has announced something that is in
// doubt, "" for none, and whether nothing came from the participant itself.
func (x *exchange) doubtful(participant string, w *watch) (topic string, silent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w.settled = true
	silent = w.heard != x.connection && !x.p.unannounced // who could not be answered
	for _, e := range x.remote[participant] {
		if x.concerns(e) && (silent || !x.alive[participant].counts(e)) {
			return e.Topic, silent
		}
	}
	return "", silent
}

// presume takes a participant for dead.
func (ps *peers) presume(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if pr := ps.known[id]; pr != nil && pr.Alive {
		pr.Alive, pr.Since = false, time.Now()
		ps.tell(pr.Presence)
	}
}
