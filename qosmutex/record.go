package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

// recordKeeper asks the register what the machine of a candidate wants to know or
// write, so that nothing that takes time is done under the topic's mutex.
type recordKeeper struct {
	candidate *candidate.Machine // nil: this participant cannot be the root
	requests  chan lease.Request // one at a time
	register  register.Register
	placed    placed          // where what outlives the process is noted: the register, if it is such a one, or beside it; nil: nowhere
	settled   bool            // placed knows all members
	former    []protocol.Node // members of a former root at the same place that have not come back
	notes     heldNotes
	key       string
	born      protocol.Time // the register is older than that, by its last answer
	patience  time.Duration // for an answer; twice that while the register is slow
	slow      bool          // its last answer took longer than patience, or did not come
	failing   time.Time     // since when it has failure, or since when not
	warned    bool          // people were told of that
	failure   error         // why the register did not answer last; nil if it did
	absent    bool          // the register has no record of the topic, and this participant may not create it
	elsewhere bool          // another one keeps this participant from being the root
	missing   []string      // voters that do not answer, as far as the register tells
}

// recordKey names the record of a lock topic in a register that may serve several
// domains of several brokers.
func recordKey(root, topic string) string { return root + "/lock/" + topic }

// placed is a register of which only one process at a time can have the file open, so
// that a root whose record names the same place has ended.
type placed interface {
	Place() string
	// Members and NoteMember keep the members of a topic across a restart of the process.
	Members(key string) (all []string, ok bool)
	Inhabited() (keys []string)
	NoteMember(key, member string, gone bool) error
	// Held, Terms, Session, NoteHold, NoteTerm, NoteNext and NoteSession keep what the
	// process holds: see notes.go.
	Held(key string) []local.Hold
	Terms(key string) []uint64
	NoteNext(key string, term uint64) error
	Session(key string) local.Session
	NoteSession(key string, s local.Session) error
	NoteHold(key string, h local.Hold, gone bool) error
	NoteTerm(key string, term uint64) error
}

// newCandidate makes the machine of a participant that can be the root.
func (t *Topic) newCandidate(cfg protocol.Config) (*candidate.Machine, error) {
	wall := uint64(time.Now().UnixMicro())
	l := lease.Config{
		Lease: t.timing.TTL / 2, Create: t.create, Listen: t.timing.JoinWait, FirstTerm: wall, Wall: wall, Seed: register.NewNonce(),
	}
	if t.listened {
		l.Listen = 0
	}
	c := candidate.Config{Protocol: cfg, Lease: l, Announce: t.timing.TTL}
	k := &t.record
	if p := k.placed; p != nil {
		c.Lease.Place = p.Place()
		c.Lease.Members, c.Lease.Known = membersOf(p, k.key)
		c.Lease.Held, c.Lease.HeldIn = cfg.Held, p.Terms(k.key)
		if !t.resumes && len(p.Held(k.key)) > 0 { // somebody goes by them, and is waited for
			c.Lease.Known, c.Lease.HeldIn = false, nil
		}
	}
	if own, ok := t.register.(ownRegister); ok {
		c.Lease.CountsUntil = own.until
	}
	m, err := candidate.New(c)
	if err != nil {
		return nil, err
	}
	k.candidate, k.requests, k.register = m, make(chan lease.Request, 1), t.register
	k.former, k.patience = slices.Clone(c.Lease.Members), time.Duration(l.Lease)/8
	t.aside.Go(t.keepRecord)
	return m, nil
}

// membersOf reads who may hold by the word of a former root at the same place.
func membersOf(p placed, key string) (nodes []protocol.Node, known bool) {
	all, known := p.Members(key)
	for _, s := range all {
		id, incarnation, _ := cutLast(s, "/")
		n, err := strconv.ParseUint(incarnation, 10, 64)
		if err != nil {
			return nil, false
		}
		nodes = append(nodes, protocol.Node{ID: id, Incarnation: n})
	}
	return nodes, known
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// noteMembers keeps the members for a root that is started again at this place. It
// comes before anything is sent. The caller holds mu.
func (t *Topic) noteMembers() {
	k := &t.record
	if k.placed == nil || k.candidate == nil {
		return
	}
	for _, n := range t.out.Ended {
		t.note(n, true)
	}
	for _, n := range t.out.Begun {
		t.note(n, false)
		k.former = slices.DeleteFunc(k.former, func(o protocol.Node) bool { return o == n })
	}
	if !k.settled && k.candidate.Settled() {
		k.settled = true
		for _, n := range k.former { // whoever has not come back by now holds nothing
			t.note(n, true)
		}
		k.former = nil
		t.note(protocol.Node{}, false)
	}
}

// note names who may hold, or does not any more; nobody: no other member does.
func (t *Topic) note(n protocol.Node, gone bool) {
	name := ""
	if !n.IsZero() {
		name = n.ID + "/" + strconv.FormatUint(n.Incarnation, 10)
	}
	if err := t.record.placed.NoteMember(t.record.key, name, gone); err != nil {
		t.log.Warn("members cannot be noted: after a restart nothing is granted for the time-to-live", "error", err)
	}
}

// askRegister asks what the machine wants of the register, and reports whether there is an
// answer already. The caller holds mu.
func (t *Topic) askRegister(now protocol.Time) (answered bool) {
	k := &t.record
	if k.candidate == nil {
		return false
	}
	r := k.candidate.Request()
	if r.Kind == lease.NoRequest {
		return false
	}
	t.noteNext(&r)
	if a, ok := k.renewAtOnce(now, &r.Write); ok {
		t.answer(now, &a, nil)
		return true
	}
	k.requests <- r // there is room: the machine waits for an answer before it asks again
	return false
}

// renewAtOnce makes a renewal, in a register in which one waits for nothing: a root of a
// thousand topics makes thousands a second.
func (k *recordKeeper) renewAtOnce(now protocol.Time, w *lease.Write) (a lease.Answer, ok bool) {
	r, ok := k.register.(interface {
		TryRenew(key string, old register.Version, nonce uint64) (register.Version, bool)
	})
	if !ok || !w.Renewal {
		return a, false
	}
	v, ok := r.TryRenew(k.key, plainVersion(w.Old), w.Nonce)
	a.Entry.Version, a.Age = versionOf(v), now-k.born
	return a, ok
}

// noteElsewhere tells people when a root of another register keeps this participant from
// being the root, before it has stopped. The caller holds mu.
func (t *Topic) noteElsewhere() {
	c := t.record.candidate
	if c == nil || c.Elsewhere() == t.record.elsewhere {
		return
	}
	if t.record.elsewhere = !t.record.elsewhere; t.record.elsewhere {
		const remedy = "give all that create this lock topic the same register, or only one of them: \"serve\" takes --voters, the same list for each; Go programs WithRegister"
		if c.LetIn() {
			t.log.Error("this participant was the root, and stops: another register keeps a later root of the lock topic; both may have let somebody in", "what to do", remedy)
		} else {
			t.log.Warn("this participant cannot be the root: another register keeps the root of the lock topic", "what to do", remedy)
		}
	}
	t.noteStanding()
}

// noteMissing has the view tell of voters that are missing. The caller holds mu.
func (t *Topic) noteMissing() {
	r, ok := t.record.register.(interface{ Missing() []string })
	if !ok {
		return
	}
	if now := r.Missing(); !slices.Equal(now, t.record.missing) {
		t.record.missing, t.board.viewDirty = now, true
		t.flushSoon(flushAfter)
	}
}

// keepRecord answers the machine's requests until the topic ends.
func (t *Topic) keepRecord() {
	for {
		select {
		case r := <-t.record.requests:
			a, err := t.record.consult(t.ctx, &r)
			t.answered(&a, err)
		case <-t.ctx.Done():
			return
		}
	}
}

// answered hands an answer of the register to the machine.
func (t *Topic) answered(a *lease.Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		now := t.clock()
		t.answer(now, a, err)
		t.settle(now)
	}
}

// answer is answered without what follows. The caller holds mu.
func (t *Topic) answer(now protocol.Time, a *lease.Answer, err error) {
	if (err == nil) != (t.record.failure == nil) {
		t.tellChanged()
		t.record.failing = time.Now()
	}
	t.record.failure = err
	t.tellOfRegister()
	if absent := err == nil && a.Entry.Version.Counter == 0 && !t.create; absent != t.record.absent {
		t.record.absent = absent
		t.tellChanged()
	}
	t.noteMissing()
	t.record.born = now - a.Age
	t.tellAge(a)
	if err := t.record.candidate.Answer(now, a, &t.out); err != nil {
		t.log.Error("the register gave an answer that it must not give: see \"pubsub-node doctor\"", "error", err)
		t.record.failure = err
	}
	t.in = protocol.Input{Kind: protocol.Tick}
	t.carryOut(&t.in, now)
}

// tellOfRegister warns of a register that has not answered for a TTL: not of voters that are
// started one after another. The caller holds mu.
func (t *Topic) tellOfRegister() {
	k := &t.record
	switch away := k.failure != nil && time.Since(k.failing) >= time.Duration(t.timing.TTL); {
	case away && !k.warned:
		k.warned = true
		t.warn("the register does not answer: nothing is granted once the lease is over", "error", k.failure)
	case k.warned && k.failure == nil:
		k.warned = false
		t.log.Info("the register answers again")
	}
}

// consult asks the register. The error says why it did not answer.
func (k *recordKeeper) consult(ctx context.Context, r *lease.Request) (lease.Answer, error) {
	patience := k.patience
	if k.slow {
		patience *= 2
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, begun := lease.Answer{Outcome: lease.Failed}, time.Now()
	var err error
	if r.Kind == lease.ReadRecord {
		err = k.read(ctx, &a)
	} else {
		err = k.write(ctx, &r.Write, &a)
	}
	k.slow = time.Since(begun) >= k.patience
	a.Age = protocol.Duration(k.register.Age())
	return a, err
}

func (k *recordKeeper) read(ctx context.Context, a *lease.Answer) error {
	e, err := k.register.Get(ctx, k.key)
	if err == nil {
		a.Entry, err = entryOf(e)
	}
	if err == nil {
		a.Outcome = lease.Done
	}
	return err
}

func (k *recordKeeper) write(ctx context.Context, w *lease.Write, a *lease.Answer) error {
	wanted := register.Write{
		Key: k.key, Old: plainVersion(w.Old),
		Value: protocol.AppendRecord(nil, &w.Record), Nonce: w.Nonce,
	}
	if w.Renewal {
		wanted.Renewal = time.Duration(w.Record.Lease)
	}
	result := k.register.CompareAndSet(ctx, wanted)[0]
	var conflict *register.Conflict
	switch err := result.Err; {
	case err == nil:
		a.Outcome, a.Entry.Version = lease.Done, versionOf(result.Version)
	case errors.As(err, &conflict) && !conflict.Unknown:
		e, err := entryOf(conflict.Current)
		if err != nil {
			return err
		}
		a.Outcome, a.Entry = lease.Conflict, e
	case errors.Is(err, register.ErrUnknown):
		a.Outcome = lease.Unknown
		return err
	default:
		return err
	}
	return nil
}

// entryOf reads what a register has.
func entryOf(e register.Entry) (lease.Entry, error) {
	entry := lease.Entry{Version: versionOf(e.Version)}
	if e.Version.Counter == 0 {
		return entry, nil
	}
	var err error
	if entry.Record, err = protocol.DecodeRecord(e.Value); err != nil {
		return entry, fmt.Errorf("qosmutex: the register has no record of this version of the program: %w", err)
	}
	return entry, nil
}

func plainVersion(v lease.Version) register.Version {
	return register.Version{Domain: v.Domain, Counter: v.Counter, Nonce: v.Nonce}
}

func versionOf(v register.Version) lease.Version {
	return lease.Version{Domain: v.Domain, Counter: v.Counter, Nonce: v.Nonce}
}
