package pubsub

import (
	"context"
	"time"

	"padme/pubsub/internal/wait"
)

// What a participant hears of others follows from its own writers and readers: of each
// of their topics what is announced there, and of each participant with whom one of them
// may match, its presence.

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

// follow is the subscription to the announcements of a topic.
type follow struct {
	refs  int
	ready chan struct{} // closed when it is granted, or has failed
	err   error
	stop  func() // once granted
}

// attend follows the announcements of a topic, or of all topics if that is "", until
// release, which is called with x.mu held. It blocks until that is granted or ctx ends.
func (x *exchange) attend(ctx context.Context, topic string) (release func(), err error) {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	for {
		x.mu.Lock()
		f := x.follow[topic]
		first := f == nil
		if first {
			f = &follow{ready: newChan()}
			x.follow[topic] = f
		}
		f.refs++
		x.mu.Unlock()
		release = func() { x.release(topic, f) }
		if first {
			x.subscribe(ctx, topic, f)
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			x.mu.Lock()
			release()
			x.mu.Unlock()
			return nil, context.Cause(ctx)
		}
		if f.err == nil {
			return release, nil
		}
		if first { // else it may be that only the other one gave up
			return nil, f.err
		}
	}
}

// subscribe makes f granted or failed.
func (x *exchange) subscribe(ctx context.Context, topic string, f *follow) {
	level := "+"
	if topic != "" {
		level, _ = EncodeLevel(topic) // checked by NewTopic
	}
	stop, err := x.p.subscribe(ctx, x.p.main, x.p.root+"/ep/"+level+"/+/+", x.announced)
	x.mu.Lock()
	f.stop, f.err = stop, err
	if err != nil {
		delete(x.follow, topic)
	}
	x.mu.Unlock()
	close(f.ready)
	if err == nil && topic != "" {
		x.p.askUnlessTold(func() { x.p.askTopic(topic) })
	}
}

func (x *exchange) release(topic string, f *follow) {
	if f.refs--; f.refs > 0 || f.stop == nil {
		return
	}
	delete(x.follow, topic)
	f.stop()
	for participant, of := range x.remote {
		for at, e := range of {
			if !x.follows(at.topic) {
				x.forget(e, true)
			}
		}
		x.reconsider(participant)
	}
}

// follows reports whether the announcements of a topic are heard.
func (x *exchange) follows(topic string) bool { return x.follow[topic] != nil || x.follow[""] != nil }

// all follows the announcements of all topics and the presences of all participants
// from then on; it reports whether it is the first to do so.
func (x *exchange) all(ctx context.Context) (first bool, err error) {
	if err := x.starting.Take(ctx); err != nil {
		return false, err
	}
	defer x.starting.Give()
	if x.everyone.Load() {
		return false, nil
	}
	release, err := x.attend(ctx, "")
	if err != nil {
		return false, err
	}
	x.everyone.Store(true)
	if err := x.p.peers.start(ctx); err != nil {
		x.everyone.Store(false)
		x.mu.Lock()
		release()
		x.mu.Unlock()
		return false, err
	}
	x.p.peers.each(func(pr *peer) { x.presence(pr.Presence) })
	return true, nil
}

// returned follows a reconnection: what was closed meanwhile is to be found out, and who
// has died.
func (x *exchange) returned() {
	x.p.start(x.missed)
	x.doubtAll()
	x.p.askUnlessTold(func() {
		if x.p.peers.following.Load() {
			x.p.ask()
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for topic := range x.topics {
			x.p.askTopic(topic)
		}
	})
}

// missed forgets what the broker did not return although its participant is as it was: it
// was closed. Who died, or has yet to come back itself, is told by its presence.
func (x *exchange) missed() {
	ctx, cancel := x.p.main.Connected(x.p.ctx)
	defer cancel()
	if x.p.unannounced {
		return
	}
	x.mu.Lock()
	connection := x.connection
	x.mu.Unlock()
	select {
	case <-x.p.self.settled():
	case <-ctx.Done():
		return
	}
	if !x.p.recalls.Load() {
		return
	}
	stays := map[string]bool{}
	x.p.peers.each(func(pr *peer) { stays[pr.ID] = pr.confirmed })
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.connection != connection { // what came is out of date
		return
	}
	for participant, of := range x.remote {
		for _, e := range of {
			if e.connection != connection && stays[participant] && x.alive[participant].counts(e) {
				x.forget(e, true)
			}
		}
		x.reconsider(participant)
	}
}

// connecting follows that another connection is made.
func (x *exchange) connecting() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.connection++
}

// watch is the subscription to the presence of one participant.
type watch struct {
	ctx     context.Context
	stop    context.CancelFunc
	granted chan struct{} // closed when it is granted, or has failed
	settled bool          // its presence had the time to come
	heard   int           // the connection on which something came from itself
}

// reconsider watches a participant while something of it may match something of ours.
func (x *exchange) reconsider(participant string) {
	w, wanted := x.watch[participant], x.wants(participant)
	switch {
	case wanted && w == nil:
		ctx, stop := context.WithCancel(x.p.ctx)
		w = &watch{ctx: ctx, stop: stop, granted: newChan()}
		x.watch[participant] = w
		if !x.p.start(func() { x.look(participant, w) }) {
			stop()
		}
	case !wanted && w != nil:
		w.stop()
		delete(x.watch, participant)
		if !x.everyone.Load() {
			delete(x.alive, participant)
		}
	}
}

func (x *exchange) reconsiderAll() {
	for participant := range x.remote {
		x.reconsider(participant)
	}
}

func (x *exchange) wants(participant string) bool {
	for _, e := range x.remote[participant] {
		if x.concerns(e) {
			return true
		}
	}
	return false
}

// concerns reports whether e may match something of ours, or would tell why not.
func (x *exchange) concerns(e *endpoint) bool {
	if x.survey[e.Topic] > 0 && e.Kind == "writer" {
		return true
	}
	for _, l := range x.topics[e.Topic] {
		if l.json.Kind != e.Kind && l.json.QoS.Partition.Meets(e.QoS.Partition) {
			return true
		}
	}
	return false
}

// watches reports whether the presence of one participant is followed.
func (x *exchange) watches(participant string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.watch[participant] != nil
}

// look follows the presence of a participant until the watch ends, and asks it if nothing
// has come that fits and is from itself.
func (x *exchange) look(participant string, w *watch) {
	ctx, ps := w.ctx, &x.p.peers
	ps.keep(participant)
	level, _ := EncodeLevel(participant) // it was decoded
	stop, err := func() {}, error(nil)
	if participant == x.p.id { // this is subscribed to anyhow
		if birth, alive := x.p.self.presence(); alive {
			ps.receive("presence/"+level, birth, false) // which is heard from itself, too
		}
	} else {
		stop, err = x.p.subscribe(ctx, x.p.main, x.p.root+"/presence/"+level, ps.receive)
	}
	close(w.granted)
	if err != nil {
		if ctx.Err() == nil {
			x.p.log.Warn("a participant with whom something may match cannot be followed: allow to read presences in the broker's access rules", "peer", participant, "error", err)
		}
		ps.let(participant)
		return
	}
	context.AfterFunc(ctx, func() {
		stop()
		ps.let(participant)
	})
	x.doubt(participant, w)
}

// surveyed blocks until it is known which writers of a topic live, before there is a
// reader. done is to be called once there is.
func (x *exchange) surveyed(ctx context.Context, topic string) (done func(), err error) {
	x.mu.Lock()
	x.survey[topic]++
	x.reconsiderAll()
	x.mu.Unlock()
	release, err := x.attend(ctx, topic)
	done = func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.survey[topic]--; x.survey[topic] == 0 {
			delete(x.survey, topic)
		}
		if release != nil {
			release()
		}
		x.reconsiderAll()
	}
	if err == nil {
		err = x.metAll(ctx)
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// metAll blocks until everybody is matched of whom the broker tells, and what it keeps of
// them has arrived.
func (x *exchange) metAll(ctx context.Context) error {
	if err := x.caughtUp(ctx); err != nil {
		return err
	}
	return x.seenAlive(ctx)
}

// metAllOf is metAll for the endpoints of a topic. At a broker that returns nothing for a
// wildcard they are asked, and have a while to answer.
func (x *exchange) metAllOf(ctx context.Context, topic string) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	if err := x.metAll(ctx); err != nil || x.p.recalls.Load() {
		return err
	}
	x.p.askTopic(topic)
	if !wait.Sleep(ctx, recallWait) {
		return context.Cause(ctx)
	}
	return x.metAll(ctx)
}

// seenAlive blocks until the presences have arrived, as far as the broker has them, of
// those who are watched.
func (x *exchange) seenAlive(ctx context.Context) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	x.mu.Lock()
	var all []*watch
	for _, w := range x.watch {
		all = append(all, w)
	}
	x.mu.Unlock()
	for _, w := range all {
		select {
		case <-w.granted:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return x.echoes.await(ctx, "main", x.p.main.Out, x.p.inbox.prefix+x.p.level, x.p.incarnation)
}
