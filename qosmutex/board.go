package qosmutex

import (
	"encoding/json"
	"slices"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// maxNews bounds the foreign messages that wait to be read by the root.
const maxNews = 1024

// followAgain is the pause after a subscription that failed.
const followAgain = time.Second

// board is what the root publishes: the state of each resource and the view.
type board struct {
	term      *term // nil: others may speak for the topic
	following bool  // subscribed to what others publish
	stops     []func()

	resources  map[string]*notice
	dirty      []*notice
	all        bool // everything is dirty
	news       []pubsub.RawMessage
	cleared    []string // resources that are not known, but had a state of another participant
	view       View
	viewDirty  bool
	viewSent   echoes
	settlesAt  protocol.Time // of which grantsFrom is the wall clock's time
	grantsFrom time.Time
	contested  time.Time     // since when something of a later epoch is there; zero: it is not
	next       time.Time     // no states before
	vanished   chan struct{} // not nil: nothing is told any more; closed once all is cleared
}

// noticeOf returns the notice of a resource, made if need be. The caller holds mu.
func (t *Topic) noticeOf(resource string) *notice {
	n := t.board.resources[resource]
	if n == nil {
		n = &notice{resource: resource, since: time.Now()}
		if r, ok := t.described(resource); ok {
			n.begin(&r)
		}
		t.board.resources[resource] = n
	}
	return n
}

// described is what the machine says of a resource without its queue, if it tells.
func (t *Topic) described(resource string) (r protocol.ResourceStatus, ok bool) {
	return t.machine.Resource(resource, 0)
}

// touch has the state of a resource published soon.
func (t *Topic) touch(resource string) {
	b := &t.board
	if resource == Any || resource == "" {
		b.all = true
	} else if n := t.noticeOf(resource); !n.dirty {
		n.dirty = true
		b.dirty = append(b.dirty, n)
	}
	t.flushSoon(flushAfter)
}

// lookAgain has everything published again: the broker may have forgotten it.
func (b *board) lookAgain() {
	if b.term == nil {
		return
	}
	b.all, b.viewDirty, b.view = true, true, View{}
	for _, n := range b.resources {
		n.shown, n.cleared = false, false
	}
}

// notice notes what a step changed on the board. The caller holds mu.
func (t *Topic) notice(in *protocol.Input) {
	if t.board.term == nil {
		return
	}
	for i := range t.out.Grants {
		g := &t.out.Grants[i]
		e := entered{who: t.self.ID, priority: g.Priority, fence: g.Fence, at: time.Now()}
		if h := t.calls[g.Ref]; h != nil {
			e.client = h.client
		}
		t.noticeOf(g.Resource).enter(e)
		t.touch(g.Resource)
	}
	for i := range t.out.Denials {
		t.touch(t.out.Denials[i].Resource)
	}
	for _, r := range t.out.Touched {
		if r == Any || t.checkDeclared(r) == nil {
			t.touch(r)
		}
	}
	for i := range t.out.Left {
		l := &t.out.Left[i]
		if n := t.noticeOf(l.Resource); t.handedOut(l.Resource, l.Fence) && t.believes(n, l.Fence) {
			n.leave(entered{who: l.ID.Node.ID, fence: l.Fence, at: time.Now()})
		}
	}
	if in.Kind == protocol.Tick {
		t.touch(Any) // recoveries, expired sessions
	}
}

// publishBoard publishes what has changed.
func (t *Topic) publishBoard() {
	t.mu.Lock()
	term, vanished := t.board.term, t.board.vanished
	if vanished != nil {
		t.mu.Unlock()
		t.clearBoard(term, vanished)
		return
	}
	if !term.lasts() {
		t.mu.Unlock()
		return
	}
	news := t.board.news
	t.board.news = nil
	t.reclaim()
	t.mu.Unlock()
	t.readNews(news)
	states, view := t.pendingBoard(term)
	for _, resource := range t.takeCleared() {
		levels := []string{"lock", t.name, resource, "state"}
		t.countPublication(levels, t.p.PublishWhile(term.lasts, levels, nil))
	}
	for i := range states {
		s := &states[i]
		t.publishInTerm(term, []string{"lock", t.name, s.Resource, "state"}, s, func() *echoes { return &t.noticeOf(s.Resource).sent })
	}
	if view != nil {
		t.publishInTerm(term, []string{"lock", t.name, "view"}, view, func() *echoes { return &t.board.viewSent })
	}
}

// takeCleared returns the resources of which nothing is to be retained.
func (t *Topic) takeCleared() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	cleared := t.board.cleared
	t.board.cleared = nil
	return cleared
}

// pendingBoard collects the states that differ from those published, and the
// view if it does.
func (t *Topic) pendingBoard(term *term) (states []State, view *View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.board
	if b.term != term || !b.all && !b.viewDirty && len(b.dirty) == 0 {
		return nil, nil
	}
	if wait := time.Until(b.next); wait > 0 && !t.closing {
		t.flushSoon(wait)
		return nil, nil
	}
	defer func() { b.next = time.Now().Add(max(stateEvery, time.Duration(len(states))*statePause)) }()
	show := func(r *protocol.ResourceStatus) {
		n := t.noticeOf(r.Resource)
		if t.retired(r) {
			if !n.cleared {
				n.shown, n.cleared = false, true
				b.cleared = append(b.cleared, r.Resource)
			}
			return
		}
		n.cleared = false
		if s := t.stateOf(n, r); !n.shown || !s.equal(n.last) {
			n.last, n.shown = s, true
			states = append(states, s)
		}
	}
	if b.all {
		for _, r := range t.machine.Status().Resources {
			show(&r)
		}
	} else {
		for _, n := range b.dirty {
			if r, ok := t.machine.Resource(n.resource, maxQueue); ok {
				show(&r)
			}
		}
	}
	for _, n := range b.dirty {
		n.dirty = false
	}
	if b.viewDirty || b.all {
		if v := t.viewOf(); !v.equal(b.view) {
			b.view, view = v, &v
		}
	}
	b.dirty, b.all, b.viewDirty = b.dirty[:0], false, false
	return states, view
}

// retired reports whether the topic does not have this resource any more, and nobody uses it.
func (t *Topic) retired(r *protocol.ResourceStatus) bool {
	s := &t.status.Settings
	_, declared := slices.BinarySearch(s.Resources, r.Resource)
	return !declared && !s.Open && r.Free && r.Waiting == 0
}

// View returns what holds for the topic as a whole, as far as this participant knows. Members,
// Missing and GrantsFrom the root knows.
func (t *Topic) View() View {
	if t.made() != nil {
		return View{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewOf()
	if t.status.Role != protocol.Root {
		v.Root = t.status.Root.ID
	}
	v.Resources, v.Missing = slices.Clone(v.Resources), slices.Clone(v.Missing)
	return v
}

// viewOf is what the root publishes. The caller holds mu.
func (t *Topic) viewOf() View {
	st := &t.status
	v := View{
		Topic: t.name, Epoch: st.Epoch.String(), Root: t.self.ID,
		TTL: time.Duration(st.TTL).Seconds(), Models: st.Settings.Models.String(), ModelsBy: st.Settings.ModelsBy,
		Resources: st.Settings.Resources, Open: st.Settings.Open, ResourcesBy: st.Settings.ResourcesBy, Members: st.Members, Missing: t.record.missing,
	}
	v.GrantsFrom = t.grantsFrom()
	if t.waitsForEarlier() {
		v.EarlierTTL = time.Duration(t.earlier).Seconds()
	}
	if v.Resources == nil {
		v.Resources = []string{}
	}
	return v
}

// noteChange follows the settings. The caller holds mu.
func (t *Topic) noteChange(was *protocol.Status) {
	b := &t.board
	if b.term != nil && was.Settings.Version != t.status.Settings.Version {
		b.all = true
	}
	if b.term != nil && was.Role == protocol.Root && was.Settings.Models != t.status.Settings.Models {
		t.report(eventRecord{name: EventModels, models: t.status.Settings.Models.String(), at: time.Now()})
	}
	if is := t.status.Settings; b.term != nil && was.Role == protocol.Root && !sameResources(&was.Settings, &is) {
		t.report(eventRecord{name: EventResources, settings: &is, at: time.Now()})
	}
	t.flushSoon(flushAfter)
}

// follow subscribes the root to what others publish on its topic, and stops that
// when it is the root no more.
func (t *Topic) follow() {
	t.mu.Lock()
	b := &t.board
	want, have := b.term != nil && !t.ended, b.following
	t.mu.Unlock()
	switch {
	case want && !have:
		t.subscribeNews()
	case have && !want:
		t.unfollow()
	}
}

// unfollow is called by the publisher only, as are follow and subscribeNews.
func (t *Topic) unfollow() {
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
			t.unfollow()
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
	switch entry := (entered{participant, client, e.Priority, fence, e.At}); e.Event {
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
	var said struct{ Epoch string }
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
		n.shown, n.cleared = false, false
		t.touch(n.resource)
	case len(m.Payload) == 0:
		return // as it should be
	default:
		b.cleared = append(b.cleared, n.resource)
	}
	t.metrics.dropped[dropForeign]++
}

// knows reports whether the machine can describe a resource: at the root, whether it
// is declared, or was asked for or held since it took over.
func (t *Topic) knows(resource string) bool {
	_, ok := t.described(resource)
	return ok
}
