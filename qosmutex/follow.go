package qosmutex

import (
	"encoding/json"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// maxNews bounds the foreign messages that wait to be read by the root.
const maxNews = 1024

// followAgain is the pause after a subscription that failed.
const followAgain = time.Second

// followNews subscribes the root to what others publish on its topic, and stops that
// when it is the root no more.
func (t *Topic) followNews() {
	t.mu.Lock()
	b := &t.board
	want, have := b.term != nil && !t.ended, b.following
	t.mu.Unlock()
	switch {
	case want && !have:
		t.subscribeNews()
	case have && !want:
		t.unfollowNews()
	}
}

// unfollowNews is called by the publisher only, as are followNews and subscribeNews.
func (t *Topic) unfollowNews() {
	for _, stop := range t.board.stops {
		stop()
	}
	t.board.stops = nil
	t.mu.Lock()
	t.board.following = false
	t.board.news = nil
	t.mu.Unlock()
}

func (t *Topic) subscribeNews() {
	for _, levels := range [][]string{{"lock", t.name, "+", "state"}, {"lock", t.name, "events"}, {"lock", t.name, "view"}} {
		stop, err := t.p.SubscribeRaw(t.ctx, pubsub.Main, levels, t.heardNews)
		if err != nil {
			t.log.Info("the root cannot follow its topic yet", "error", err)
			t.unfollowNews()
			t.mu.Lock()
			t.flushSoon(followAgain)
			t.mu.Unlock()
			return
		}
		t.board.stops = append(t.board.stops, stop)
	}
	t.mu.Lock()
	t.board.following = true
	t.mu.Unlock()
}

// heardNews keeps a message for the publisher to read.
func (t *Topic) heardNews(m pubsub.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.board.news) >= maxNews {
		t.metrics.dropped[dropNews]++
		return
	}
	t.board.news = append(t.board.news, m)
	t.flushSoon(flushAfter)
}

// ofRequest begins the lines of which a root learns nothing, as this package writes them: a
// third of all.
var ofRequest = []byte(`{"event":"` + EventRequested + `",`)

func (t *Topic) readNews(news []pubsub.RawMessage) {
	for _, m := range news {
		if len(m.Levels) == 4 || m.Levels[2] == "view" {
			t.readBoard(m)
			continue
		}
		events, bad := parseEvents(t.name, m.Payload, ofRequest)
		t.mu.Lock()
		t.metrics.dropped[dropMalformed] += uint64(bad)
		t.mu.Unlock()
		for i := range events { // one at a time, as lock messages wait meanwhile
			t.mu.Lock()
			t.readEvent(&events[i])
			t.mu.Unlock()
		}
	}
}

// readEvent learns who is inside. Of our own entries the board knows before.
func (t *Topic) readEvent(e *Event) {
	fence := parseFence(e.Fence)
	if fence == 0 || checkResource(e.Resource) != nil || t.checkDeclared(e.Resource) != nil {
		return
	}
	if !t.handedOut(e.Resource, fence) {
		t.metrics.dropped[dropForeign]++
		return
	}
	n, news := t.noticeOf(e.Resource), false
	t.handOver(&n.passages, e, fence)
	participant, client := e.member()
	if participant == t.self.ID || !t.believes(n, fence) {
		return
	}
	switch entry := (entered{participant, client, e.Priority, fence, e.At, protocol.ParseHow(e.How)}); e.Event {
	case EventGranted:
		news = n.enter(entry)
	case EventReleased, EventLost:
		news = n.leave(entry)
	}
	if news {
		t.touch(e.Resource)
	}
}

// handedOut reports whether there can be an entry with this fence: a root knows the
// first that it has not handed out, and who claims a higher one lies. Believed, it
// would hide every true entry below it.
func (t *Topic) handedOut(resource string, fence uint64) bool {
	r, ok := t.described(resource)
	return ok && (r.Fence == 0 || fence < r.Fence || r.Inside && fence == r.Fence)
}

// believes reports whether what is told of an entry with this fence may change a state.
func (t *Topic) believes(n *notice, fence uint64) bool {
	r, ok := t.described(n.resource)
	return !ok || n.believes(&r, fence)
}

// reclaim publishes all again when something of a later epoch has been there for so
// long that a true successor would have ended this term. The caller holds mu.
func (t *Topic) reclaim() {
	b := &t.board
	if b.contested.IsZero() || time.Since(b.contested) < 2*time.Duration(t.status.TTL) {
		return
	}
	b.contested = time.Time{}
	t.metrics.dropped[dropForeign]++
	b.lookAgain()
}

// readBoard answers a state or view that we did not write: one of a former root,
// or a forged one. One of a later epoch is a successor's, of which we shall hear.
func (t *Topic) readBoard(m pubsub.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.board
	isView := len(m.Levels) == 3
	sent, n := &b.viewSent, (*notice)(nil)
	if !isView {
		if n = b.resources[m.Levels[2]]; n == nil {
			n = &notice{resource: m.Levels[2]}
		}
		sent = &n.sent
	}
	if sent.heard(m.Payload) {
		return
	}
	var said formerState
	if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &said) == nil {
		if epoch, ok := parseEpoch(said.Epoch); ok && epoch.Compare(t.status.Epoch) > 0 {
			if b.contested.IsZero() {
				b.contested = time.Now()
			}
			return
		}
	}
	switch {
	case isView:
		b.view, b.viewDirty = View{}, true
		t.flushSoon(flushAfter)
	case n.cleared && len(m.Payload) == 0:
		return // as it should be
	case t.knows(n.resource):
		n = t.noticeOf(n.resource)
		if r, ok := t.described(n.resource); ok {
			n.updateEntries(&r, t.self.ID)
			n.recall(&said)
		}
		n.shown, n.cleared = false, false
		t.touch(n.resource)
	case len(m.Payload) == 0:
		return // as it should be
	default:
		b.strange = append(b.strange, n.resource)
		t.flushSoon(flushAfter)
	}
	t.metrics.dropped[dropForeign]++
}

// knows reports whether the machine can describe a resource: at the root, whether it
// is declared, or was asked for or held since it took over.
func (t *Topic) knows(resource string) bool {
	_, ok := t.described(resource)
	return ok
}
