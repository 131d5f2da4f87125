package qosmutex

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
)

// A server lets go of topics that nobody uses: after a while (see TopicLimits), sooner when
// there are many, those that were used least recently first, so that names which were used
// once don't keep others from being opened, and any topic by Remove. The record of a topic stays in the register, so whoever opens it
// again goes on above all fences that were handed out.

// letGoAfter is how long nobody must have used a topic that the server lets go of because
// there are many.
const letGoAfter = time.Minute

// spare is how much of a limit is kept free by letting go of topics, so that nobody waits
// for that.
func spare(limit int) int { return limit / 16 }

// leaving asks whoever keeps a topic to let go of it.
type leaving struct {
	remove bool          // whatever was declared, and its settings are to be forgotten
	unused time.Duration // else: for how long nobody must have used it
	done   chan error    // has room for one
}

// InUseError says that a lock topic cannot be removed because it is in use.
type InUseError struct {
	Topic string
	By    string // what uses it, for people
	// Part is true if there is no known holder or waiter but other members remain, possibly
	// servers shutting down.
	Part bool
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("qosmutex: lock topic %q is in use: %s", e.Topic, e.By)
}

// Remove closes a topic of the server and resets its settings: they are the defaults when
// it is opened again, and its retained messages are cleared. Its record stays in the
// register, so its fences continue to rise. A server that is not the root only leaves the
// topic, and reports which participant is the root. Errors are an *InUseError while a
// holder, waiter or other member exists, ErrTimeout or ErrCanceled (and context.Cause),
// ErrClosed, and those of the register.
func (s *Server) Remove(ctx context.Context, name string) error {
	if err := s.made(); err != nil {
		return err
	}
	e := s.served(name)
	if e == nil {
		if known, err := s.rootless(ctx, name); err != nil {
			return err
		} else if known {
			return s.forgetSettings(ctx, name)
		}
		if _, err := s.Topic(ctx, name); err != nil { // open, its root clears what others have left
			return err
		}
		e = s.served(name)
	}
	l := leaving{remove: true, done: make(chan error, 1)}
	if e == nil || !s.askToLeave(ctx, e, l) {
		return interrupted(ctx, fmt.Sprintf("lock topic %q to be open", name))
	}
	return <-l.done
}

// served is a topic that is open or about to be; nil: it is not.
func (s *Server) served(name string) *servedTopic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[name]
}

// rootless reports whether a topic has a record that names no root. If that names another
// participant, the error is an *InUseError.
func (s *Server) rootless(ctx context.Context, name string) (bool, error) {
	var a lease.Answer
	if err := s.record(name).read(ctx, &a); err != nil {
		return false, err
	}
	root := a.Entry.Record.Root
	if !root.IsZero() && root.ID != s.p.ID() {
		return false, &InUseError{name, root.ID + " is its root", true}
	}
	return a.Entry.Version.Counter != 0 && root.IsZero(), nil
}

// record is where the server keeps who is the root of a topic that it creates.
func (s *Server) record(name string) *recordKeeper {
	k := &recordKeeper{register: s.register, key: recordKey(s.p.Root(), name)}
	if k.register == nil {
		k.register = s.own
	}
	return k
}

// askToLeave reports whether the one that keeps a topic has heard of l before ctx ended.
func (s *Server) askToLeave(ctx context.Context, e *servedTopic, l leaving) bool {
	select {
	case e.leave <- l:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	case <-s.p.Done():
	}
	return false
}

// makeRoom lets go of topics where a user, or all together, come near their limit with one
// more. The caller holds mu.
func (s *Server) makeRoom(user string, weight int) {
	near := func(used, limit int) bool { return used+weight > limit-spare(limit) }
	full := func() bool { return near(s.account.total, s.most(user, weight)) }
	of := "" // everybody
	if !full() {
		if user == "" || !near(s.account.byUser[user], s.limits.PerUser) {
			return
		}
		of = user
		full = func() bool { return near(s.account.byUser[user], s.limits.PerUser) }
	}
	if s.makingRoom {
		return
	}
	idle := s.unused(of, letGoAfter)
	if len(idle) == 0 {
		return
	}
	s.makingRoom = true
	s.running.Go(func() {
		defer s.madeRoom()
		s.letGo(idle, letGoAfter, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return full()
		})
	})
}

func (s *Server) madeRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makingRoom = false
}

// unused are the open topics of a user, or of all, that were not asked for lately, the
// least recent first. The caller holds mu.
func (s *Server) unused(user string, lately time.Duration) (idle []*servedTopic) {
	for _, e := range s.topics {
		if e.topic != nil && (user == "" || e.user == user) && time.Since(e.used) > lately {
			idle = append(idle, e)
		}
	}
	slices.SortFunc(idle, func(a, b *servedTopic) int { return a.used.Compare(b.used) })
	return idle
}

// letGo lets go of those topics of which nobody makes use, as long as more says so.
func (s *Server) letGo(idle []*servedTopic, lately time.Duration, more func() bool) {
	for _, e := range idle {
		if !more() {
			return
		}
		l := leaving{unused: lately, done: make(chan error, 1)}
		soon, cancel := context.WithTimeout(s.ctx, time.Second) // it may have to be opened again
		asked := s.askToLeave(soon, e, l)
		cancel()
		if !asked {
			continue
		}
		err := <-l.done
		s.mu.Lock()
		if e.used = time.Now(); err == nil {
			s.account.givenUp++
		}
		s.mu.Unlock()
	}
}

// giveUpIdle lets go of topics that nobody has used for long.
func (s *Server) giveUpIdle() {
	look := time.NewTicker(max(s.limits.Idle/4, leastIdle/4))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			s.mu.Lock()
			idle := s.unused("", s.limits.Idle)
			s.mu.Unlock()
			s.letGo(idle, s.limits.Idle, func() bool { return s.ctx.Err() == nil })
		case <-s.ctx.Done():
			return
		}
	}
}

// mayLeave reports why the server cannot let go of a topic now. standby: it can, but others
// that only stand by, like this server, take part.
func (s *Server) mayLeave(t *Topic, l *leaving) (standby bool, err error) {
	serve := s.whoServes()
	t.mu.Lock()
	defer t.mu.Unlock()
	st := &t.status
	var by []string
	for _, h := range t.calls {
		who, _ := asker(t.self.ID, h.client)
		does := "holds"
		if h.phase.Load() == waiting {
			does = "waits for"
		}
		by = append(by, fmt.Sprintf("%s %s %s", who, does, h.resource))
	}
	root, used := st.Role == protocol.Root, len(by) > 0
	if root && !used {
		children := t.machine.Overview().Children
		standby = !l.remove && len(children) > 0 && st.Members == 1+len(children) && !slices.ContainsFunc(children, func(n protocol.Node) bool { return !serve[n.ID] })
		for _, n := range children {
			if !standby {
				by = append(by, n.ID+" takes part")
			}
		}
	}
	switch {
	case len(by) > 0:
	case root && l.remove && t.record.candidate != nil && !t.record.candidate.Settled():
		by = append(by, "its root has just begun, and somebody may hold whom it does not know yet")
	case root && st.Members > 1 && !standby:
		by = append(by, "others take part, or are about to leave")
	case !l.remove && (!root || st.Settings.ModelsBy != "" || st.Settings.ResourcesBy != ""):
		by = append(by, "it was declared, or another participant is its root")
	case !l.remove && time.Since(t.used) < l.unused:
		by = append(by, "it was used a while ago")
	}
	if len(by) == 0 {
		return standby, nil
	}
	slices.Sort(by)
	if most := 4; len(by) > most {
		by = append(by[:most], fmt.Sprintf("and %d more", len(by)-most))
	}
	return false, &InUseError{Topic: t.name, By: strings.Join(by, ", "), Part: !used}
}

// whoServes is who else serves and creates locks, and so takes part in topics to stand by. Each
// of those leaves an unused topic when it is the root, a TopicLimits.Idle after the
// one before it has left.
func (s *Server) whoServes() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.serving)
}

// afterwards is what is left to do once the server has closed a topic.
func (s *Server) afterwards(ctx context.Context, name string, l *leaving) error {
	if !l.remove {
		return nil
	}
	return s.forgetSettings(ctx, name)
}

// left tells those that wait for a topic and whoever asked that the server has let go of it.
func (s *Server) left(name string, e *servedTopic, err error, l *leaving) {
	if s.register == nil {
		s.forgetNotes(name)
	}
	s.mu.Lock()
	s.account.charge(e.user, -e.weight)
	delete(s.topics, name)
	for other := range s.givenUp {
		if len(s.givenUp) < maxServed {
			break
		}
		delete(s.givenUp, other) // at worst it is opened, and let go of again
	}
	s.givenUp[name] = true
	e.gone = true
	close(e.changed)
	e.changed = make(chan struct{})
	s.mu.Unlock()
	l.done <- err
}

// vanish clears what watchers are told of a topic of which this participant is the root, and
// returns once that is on its way.
func (t *Topic) vanish() {
	t.mu.Lock()
	cleared := make(chan struct{})
	t.board.vanished = cleared
	t.flushSoon(0)
	t.mu.Unlock()
	select {
	case <-cleared:
	case <-t.published:
	}
}

// clearBoard is what publishBoard does of a topic that vanishes.
func (t *Topic) clearBoard(term *term, vanished chan struct{}) {
	select {
	case <-vanished: // done
		return
	default:
	}
	t.mu.Lock()
	known := slices.Sorted(maps.Keys(t.board.resources))
	t.mu.Unlock()
	levels := [][]string{{"lock", t.name, "view"}}
	for _, resource := range known {
		levels = append(levels, []string{"lock", t.name, resource, "state"})
	}
	for _, l := range levels {
		if term.lasts() { // it may be over when they leave: whoever is the root then writes them again
			t.publishSide(l, nil, true)
		}
	}
	close(vanished)
}

// forgetSettings puts the server's defaults in the place of what the record of a topic says, its
// TTL as well. Nobody may hold anything of the topic, nor be its root: whoever opens it next writes
// the record again, and replaces this version.
func (s *Server) forgetSettings(ctx context.Context, name string) error {
	for k := s.record(name); ; {
		if _, err := s.rootless(ctx, name); err != nil {
			return err
		}
		var a lease.Answer
		if err := k.read(ctx, &a); err != nil {
			return err
		}
		r := a.Entry.Record
		ttl := s.timing.TTL
		if a.Entry.Version.Counter == 0 || r.Settings.ModelsBy == "" && r.Settings.ResourcesBy == "" && r.TTL == ttl {
			return nil
		}
		defaults := s.wanted("")
		defaults.Version = r.Settings.Version + 1
		r.Settings, r.TTL, r.Lease = defaults, ttl, ttl/2
		err := k.write(ctx, &lease.Write{Old: a.Entry.Version, Record: r, Nonce: register.NewNonce()}, &a)
		if err != nil || a.Outcome == lease.Done {
			return err
		}
	}
}
