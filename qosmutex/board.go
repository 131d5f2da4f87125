package qosmutex

import (
	"slices"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// maxStrange bounds the strange resources of a root that is unsettled.
const maxStrange = 4096

// board is what the root publishes: the state of each resource and the view.
type board struct {
	term      *term // nil: others may speak for the topic
	following bool  // subscribed to what others publish
	stops     []func()

	resources  map[string]*notice
	dirty      []*notice
	idle       idle
	busy       []*notice // of resources that are not free, or waited for, and some that were
	swept      time.Time // when everything was last looked at
	all        bool      // everything is dirty
	news       []pubsub.RawMessage
	cleared    []string // resources of which nothing is to be retained: they are not known, or idle
	strange    []string // resources that have a state of another participant, and were not known
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
		n.shown, n.cleared = false, n.faded // if the broker has a state of those, it is heard and cleared
	}
}

// notice notes what a step changed on the board. The caller holds mu.
func (t *Topic) notice(in *protocol.Input) {
	if t.board.term == nil {
		return
	}
	for i := range t.out.Decisions {
		if d := &t.out.Decisions[i]; d.How != protocol.HowResumed { // that was no choice
			t.noticeOf(d.Resource).decided.note(d)
		}
	}
	for i := range t.out.Grants {
		g := &t.out.Grants[i]
		e := entered{who: t.self.ID, priority: g.Priority, fence: g.Fence, at: time.Now(), how: g.How}
		if h := t.calls[g.Ref]; h != nil {
			e.client = h.client
		}
		t.noticeOf(g.Resource).enter(e)
		t.touch(g.Resource)
	}
	for i := range t.out.Denials {
		t.touch(t.out.Denials[i].Resource)
	}
	if len(t.out.Touched) > 0 {
		t.used = time.Now()
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
	if in.Kind == protocol.Tick { // recoveries, expired sessions
		t.touchBusy()
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
	b := &t.board
	switch {
	case len(b.strange) == 0:
	case t.unsettled() && len(b.strange) < maxStrange: // holders and waiters may not have reported yet
		t.flushSoon(max(flushAfter, time.Until(t.grantsFrom())))
	default:
		b.cleared = append(b.cleared, slices.DeleteFunc(b.strange, t.knows)...)
		b.strange = nil
	}
	cleared := b.cleared
	b.cleared = nil
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
	b.fade()
	defer func() { b.next = time.Now().Add(max(stateEvery, time.Duration(len(states))*statePause)) }()
	show := func(r *protocol.ResourceStatus) {
		n := t.noticeOf(r.Resource)
		quiet := r.Free && r.Waiting == 0
		b.noteBusy(n, !quiet)
		unused := quiet && t.undeclared(r.Resource)
		n.faded = n.faded || unused && !n.dirty && !n.shown && b.full(n)
		if unused && (n.faded || !t.status.Settings.Open) {
			if !n.cleared {
				n.shown, n.cleared = false, true
				b.cleared = append(b.cleared, r.Resource)
			}
			b.idle.note(n, false)
			return
		}
		n.cleared, n.faded = false, false
		if s := t.stateOf(n, r); !n.shown || !s.equal(n.last) {
			n.last, n.shown = s, true
			states = append(states, s)
			b.idle.note(n, unused)
		}
	}
	if b.all {
		for _, r := range t.machine.Status().Resources {
			show(&r)
		}
	}
	for _, n := range b.dirty {
		if r, ok := t.machine.Resource(n.resource, maxQueue); !ok {
			b.forget(n)
		} else if !b.all {
			show(&r)
		}
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

// undeclared reports whether the topic has this resource only as long as somebody uses it.
func (t *Topic) undeclared(resource string) bool {
	_, declared := slices.BinarySearch(t.status.Settings.Resources, resource)
	return !declared
}

// View returns the settings and state of the whole topic, as far as this participant knows
// them. Only the root sets Members, Missing and GrantsFrom; elsewhere they have no meaning.
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
