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
	rooted    bool // this participant is the root
	following bool // subscribed to what others publish
	stops     []func()

	resources map[string]*notice
	dirty     []*notice
	all       bool // everything is dirty
	news      []pubsub.RawMessage
	view      View
	viewDirty bool
	viewSent  echoes
	contested time.Time // since when something of a later epoch is there; zero: it is not
	next      time.Time // no states before
}

// notice is the state of one resource as it will be published.
type notice struct {
	resource string
	dirty    bool
	holder   string // by the highest fence known
	priority int64
	fence    uint64
	since    time.Time
	passages passages
	last     State // as published
	shown    bool  // last was published
	sent     echoes
}

func (b *board) of(resource string) *notice {
	n := b.resources[resource]
	if n == nil {
		n = &notice{resource: resource, since: time.Now()}
		b.resources[resource] = n
	}
	return n
}

// touch has the state of a resource published soon.
func (t *Topic) touch(resource string) {
	b := &t.board
	if resource == Any || resource == "" {
		b.all = true
	} else if n := b.of(resource); !n.dirty {
		n.dirty = true
		b.dirty = append(b.dirty, n)
	}
	t.flushSoon(flushAfter)
}

// lookAgain has everything published again: the broker may have forgotten it.
func (b *board) lookAgain() {
	if !b.rooted {
		return
	}
	b.all, b.viewDirty, b.view = true, true, View{}
	for _, n := range b.resources {
		n.shown = false
	}
}

// notice notes what a step changed on the board; err is the machine's. The caller
// holds mu.
func (t *Topic) notice(in *protocol.Input, err error) {
	if !t.board.rooted {
		return
	}
	for i := range t.out.Messages {
		if m := &t.out.Messages[i]; m.Kind == protocol.KindReply && !t.algorithm.Static {
			t.entered(m.Resource, m.ID.Node.ID, m.Priority, m.Fences.Next, time.Now())
		}
	}
	for i := range t.out.Grants {
		g := &t.out.Grants[i]
		t.entered(g.Resource, t.self.ID, g.Priority, g.Fence, time.Now())
	}
	for i := range t.out.Denials {
		t.touch(t.out.Denials[i].Resource)
	}
	switch {
	case err != nil: // what the machine refused may name anything
	case in.Kind == protocol.Receive:
		t.noticeMessage(in.Message)
	case in.Kind == protocol.Acquire, in.Kind == protocol.Withdraw, in.Kind == protocol.Leave:
		t.touch(in.Resource)
	case in.Kind == protocol.Tick && !t.algorithm.Static: // there nothing is recovered, and ticks are frequent
		t.board.all, t.board.viewDirty = true, true // recoveries, lapses
		t.flushSoon(flushAfter)
	}
}

func (t *Topic) noticeMessage(m *protocol.Message) {
	switch m.Kind {
	case protocol.KindRequest, protocol.KindWithdraw, protocol.KindRelease:
		if t.checkDeclared(m.Resource) != nil {
			return // a machine may overlook what comes twice without a look at it
		}
	}
	switch m.Kind {
	case protocol.KindRelease:
		n := t.board.of(m.Resource)
		for _, e := range m.Entries {
			n.fence = max(n.fence, e.Fence)
		}
		t.touch(m.Resource)
	case protocol.KindRequest, protocol.KindWithdraw:
		t.touch(m.Resource)
	case protocol.KindNamed, protocol.KindReport, protocol.KindGoodbye, protocol.KindAttach:
		t.board.all, t.board.viewDirty = true, true
		t.flushSoon(flushAfter)
	}
}

// entered notes that somebody is inside, or is the target of a token that has
// left. The higher fence wins, and of two equal ones the later word: a
// participant on the way may have used the token.
func (t *Topic) entered(resource, who string, priority int64, fence uint64, at time.Time) {
	n := t.board.of(resource)
	if fence < n.fence || fence == n.fence && n.holder == who {
		return
	}
	n.holder, n.priority, n.fence, n.since = who, priority, fence, at
	t.touch(resource)
}

// left notes that the holder with this fence is out.
func (t *Topic) left(resource string, fence uint64, at time.Time) {
	n := t.board.of(resource)
	if fence < n.fence {
		return
	}
	n.holder, n.priority, n.fence, n.since = "", 0, fence, at
	t.touch(resource)
}

// publishBoard publishes what has changed.
func (t *Topic) publishBoard() {
	t.mu.Lock()
	if !t.board.rooted {
		t.mu.Unlock()
		return
	}
	news := t.board.news
	t.board.news = nil
	t.reclaim()
	t.mu.Unlock()
	t.readNews(news)
	states, view := t.pendingBoard()
	for i := range states {
		s := &states[i]
		t.publishJSON([]string{"lock", t.name, s.Resource, "state"}, s, func() *echoes { return &t.board.of(s.Resource).sent })
	}
	if view != nil {
		t.publishJSON([]string{"lock", t.name, "view"}, view, func() *echoes { return &t.board.viewSent })
	}
}

// pendingBoard collects the states that differ from those published, and the
// view if it does.
func (t *Topic) pendingBoard() (states []State, view *View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.board
	if !b.all && !b.viewDirty && len(b.dirty) == 0 {
		return nil, nil
	}
	if wait := time.Until(b.next); wait > 0 && !t.closing {
		t.flushSoon(wait)
		return nil, nil
	}
	b.next = time.Now().Add(stateEvery)
	show := func(r *protocol.ResourceStatus) {
		n := b.of(r.Resource)
		if s := t.stateOf(n, r); !n.shown || !s.equal(n.last) {
			n.last, n.shown = s, true
			states = append(states, s)
		}
	}
	if t.brief != nil && !b.all {
		for _, n := range b.dirty {
			if r, ok := t.brief.Resource(n.resource, maxQueue); ok {
				show(&r)
			}
		}
	} else {
		for _, r := range t.machine.Status().Resources {
			show(&r)
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

func (t *Topic) stateOf(n *notice, r *protocol.ResourceStatus) State {
	switch {
	case r.Inside:
		if n.holder != t.self.ID {
			n.holder, n.since = t.self.ID, time.Now()
		}
	case r.Free, n.holder == t.self.ID && (t.closing || t.algorithm.Static): // of others in a static one, only events tell
		if n.holder != "" {
			n.holder, n.priority, n.since = "", 0, time.Now()
		}
	case n.holder == "" && n.fence == 0: // out since before this participant was the root
		n.holder, n.priority, n.since = r.Target.Node.ID, r.TargetP, time.Now()
	}
	s := State{
		Topic: t.name, Resource: n.resource, Holder: n.holder, Priority: n.priority, Fence: formatFence(n.fence),
		Since: n.since.UTC(), Waiting: r.Waiting, Epoch: t.status.Epoch.String(), Root: t.self.ID,
	}
	for _, w := range r.Queue[:min(len(r.Queue), maxQueue)] {
		s.Queue = append(s.Queue, Waiter{Participant: w.ID.Node.ID, Priority: w.Priority, Any: w.Any})
	}
	return s
}

func (t *Topic) viewOf() View {
	st := &t.status
	v := View{
		Topic: t.name, Epoch: st.Epoch.String(), Root: t.self.ID, Voters: []string{},
		TTL: time.Duration(st.TTL).Seconds(), Models: st.Settings.Models.String(),
		Resources: st.Settings.Resources, Open: st.Settings.Open, Members: st.Members,
	}
	for _, n := range st.Voters {
		v.Voters = append(v.Voters, n.ID)
	}
	if v.Resources == nil {
		v.Resources = []string{}
	}
	return v
}

// noteChange follows the role and the settings. The caller holds mu.
func (t *Topic) noteChange(was *protocol.Status) {
	b := &t.board
	// A root that departs without a successor still publishes that it is out.
	rooted := t.status.Role == protocol.Root || t.status.Role == protocol.Departed && b.rooted
	if rooted != b.rooted {
		b.rooted = rooted
		if rooted {
			b.lookAgain()
			t.report(eventRecord{name: EventRooted, at: time.Now()})
		}
	}
	if rooted && !slices.Equal(was.Voters, t.status.Voters) {
		b.viewDirty = true
	}
	if rooted && was.Role == protocol.Root && was.Settings.Models != t.status.Settings.Models {
		b.viewDirty = true
		t.report(eventRecord{name: EventModels, models: t.status.Settings.Models.String(), at: time.Now()})
	}
	if t.status.Role == protocol.Founding && was.Role != protocol.Founding && t.status.Settings.Version > 0 {
		t.refloor() // others may have founded the topic since floors were read
	}
	if heir := t.status.Heir; heir != was.Heir && !heir.IsZero() {
		t.log.Warn("the root was handed over to a participant that is not heard: nobody enters until it is; if it has ended for good, start this one again",
			"heir", heir, "topic", t.name)
	}
	t.flushSoon(flushAfter)
}

// follow subscribes the root to what others publish on its topic, and stops that
// when it is the root no more.
func (t *Topic) follow() {
	t.mu.Lock()
	b := &t.board
	want, have := b.rooted && !t.ended, b.following
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
		stop, err := t.p.SubscribeRaw(t.ctx, levels, t.heardNews)
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

func (t *Topic) readNews(news []pubsub.RawMessage) {
	for _, m := range news {
		if len(m.Levels) == 4 || m.Levels[2] == "view" {
			t.readBoard(m)
			continue
		}
		events, bad := parseEvents(t.name, m.Payload)
		t.mu.Lock()
		t.metrics.dropped[dropMalformed] += uint64(bad)
		for i := range events {
			t.readEvent(&events[i])
		}
		t.mu.Unlock()
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
	t.handOver(&t.board.of(e.Resource).passages, e, fence)
	if e.Participant == t.self.ID {
		return
	}
	switch e.Event {
	case EventGranted:
		t.entered(e.Resource, e.Participant, e.Priority, fence, e.At)
	case EventReleased, EventLost:
		t.left(e.Resource, fence, e.At)
	}
}

// handedOut reports whether there can be an entry with this fence: a root knows the
// first that it has not handed out, and who claims a higher one lies. Believed, it
// would hide every true entry below it.
func (t *Topic) handedOut(resource string, fence uint64) bool {
	if t.brief == nil || t.status.Role != protocol.Root {
		return true
	}
	r, ok := t.brief.Resource(resource, 0)
	return !ok || r.Fence == 0 || fence < r.Fence || r.Inside && fence == r.Fence
}

// reclaim publishes all again when something of a later epoch has been there for so
// long that a true successor would have ended this reign. The caller holds mu.
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
// or of nobody. One of a later epoch is a successor's, of whom we shall hear.
func (t *Topic) readBoard(m pubsub.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.board
	isView := len(m.Levels) == 3
	sent, n := &b.viewSent, (*notice)(nil)
	if !isView {
		if n = b.resources[m.Levels[2]]; n == nil {
			return
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
	t.metrics.dropped[dropForeign]++
	if isView {
		b.view, b.viewDirty = View{}, true
		t.flushSoon(flushAfter)
		return
	}
	n.shown = false
	t.touch(n.resource)
}
