package lease_test

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

const ms = protocol.Millisecond

// world is candidates of one topic, each with a clock of its own, the register, and a
// broker. Nothing in it is left to chance: what takes how long, and what is lost, is
// said by the test.
type world struct {
	now    protocol.Time // true time
	all    []*candidate
	reg    registry
	events []event
	seq    int
	oracle oracle
	net    network
	lease  protocol.Duration
	trace  []string
	quiet  bool // trace neither reads nor renewals
}

// network says what becomes of a request: how long it takes to the register and back,
// and whether it gets there. A request that has not been answered after the timeout is
// told to be unknown, and may be made all the same.
type network interface {
	request(c *candidate, kind lease.RequestKind) (there, back protocol.Duration, lost, answerLost bool)
	beacon(from, to *candidate) (delay protocol.Duration, lost bool)
}

type event struct {
	at  protocol.Time
	seq int
	do  func()
}

// candidate is one participant, in one run after another.
type candidate struct {
	w       *world
	cfg     lease.Config
	m       *lease.Machine // nil: it does not run
	self    protocol.Node
	clock   protocol.Time // its own
	at      protocol.Time // the true time of that
	rate    float64
	before  []segment // what its clock did before
	wake    protocol.Time
	paused  bool
	cut     bool // from the broker
	away    bool // from the register
	runs    uint64
	until   protocol.Time // it acts while its clock is below; 0: it doesn't
	version lease.Version // that its beacons name
	term    uint64
	heard   protocol.Time // as it was told when it was appointed
	waiting []func()      // inputs for a paused candidate
}

func (w *world) after(d protocol.Duration, do func()) {
	w.seq++
	w.events = append(w.events, event{w.now + d, w.seq, do})
}

// local is c's clock now.
func (c *candidate) local() protocol.Time {
	return c.clock + protocol.Time(float64(c.w.now-c.at)*c.rate)
}

// segment is a time in which a clock kept its rate.
type segment struct {
	clock, at protocol.Time
	rate      float64
}

// trueTime is when c's clock showed t, which is past.
func (c *candidate) trueTime(t protocol.Time) protocol.Time {
	s := segment{c.clock, c.at, c.rate}
	for i := len(c.before) - 1; i >= 0 && t < s.clock; i-- {
		s = c.before[i]
	}
	return s.at + protocol.Time(float64(t-s.clock)/s.rate)
}

// setRate has the clock run at another rate from now on.
func (c *candidate) setRate(rate float64) {
	c.before = append(c.before, segment{c.clock, c.at, c.rate})
	c.clock, c.at, c.rate = c.local(), c.w.now, rate
}

// due is the true time at which c's clock has reached t.
func (c *candidate) due(t protocol.Time) protocol.Time {
	if t == protocol.Never {
		return t
	}
	d := c.at + protocol.Time(float64(t-c.clock)/c.rate)
	for c.clock+protocol.Time(float64(d-c.at)*c.rate) < t {
		d++
	}
	return max(d, c.w.now)
}

func (w *world) find(name string) *candidate {
	for _, c := range w.all {
		if c.self.ID == name {
			return c
		}
	}
	return nil
}

// start begins a run of the candidate.
func (w *world) start(cfg lease.Config, rate float64) *candidate {
	c := w.find(cfg.Self.ID)
	if c == nil {
		c = &candidate{w: w, rate: rate, at: w.now, clock: protocol.Time(len(w.all)+1) * 1000 * ms}
		w.all = append(w.all, c)
	}
	c.runs++
	cfg.Self.Incarnation = c.runs
	cfg.Seed = uint64(len(w.all))<<32 + c.runs<<16 + uint64(cfg.Self.ID[0])
	m, err := lease.New(cfg)
	if err != nil {
		panic(err)
	}
	c.cfg, c.self, c.m, c.until, c.paused, c.waiting = cfg, cfg.Self, m, 0, false, nil
	c.wake = c.local()
	w.echoes(c, c.runs)
	return c
}

// echoes has c hear itself every eighth of a lease in this run.
func (w *world) echoes(c *candidate, run uint64) {
	if c.m == nil || c.runs != run {
		return
	}
	if !c.cut {
		delay, lost := w.net.beacon(c, c)
		if sent := c.local(); !lost {
			w.after(delay, func() {
				if c.runs == run && !c.cut {
					c.feed(&lease.Input{Kind: lease.Echo, Sent: sent})
				}
			})
		}
	}
	w.after(w.lease/8, func() { w.echoes(c, run) })
}

func (c *candidate) crash() { c.m, c.until, c.paused, c.waiting = nil, 0, false, nil }

// feed steps the machine now, or when it goes on.
func (c *candidate) feed(in *lease.Input) {
	if c.m == nil {
		return
	}
	if c.paused {
		run := c.runs
		c.waiting = append(c.waiting, func() {
			if c.runs == run {
				c.feed(in)
			}
		})
		return
	}
	if err := c.input(in); err != nil {
		c.w.say("%v refuses: %v", c.self, err)
	}
}

func (c *candidate) input(in *lease.Input) error {
	var out lease.Output
	now := c.local()
	if c.until != 0 && now >= c.until { // its holder knows by its own clock
		c.until = 0
	}
	err := c.m.Step(now, in, &out)
	c.wake = out.WakeAt
	c.handle(&out)
	c.w.oracle.check(c.w)
	return err
}

func (c *candidate) handle(out *lease.Output) {
	w := c.w
	if out.Dismissed {
		c.until = 0
		w.say("%v is dismissed", c.self)
	}
	c.request(&out.Request)
	if a := out.Appointed; a != nil {
		c.until, c.version, c.term, c.heard = a.Until, a.Version, a.Record.Term, a.Heard
		w.oracle.appointed(c, a)
		w.oracle.renewed = max(w.oracle.renewed, c.trueTime(a.Renewed))
		heard := fmt.Sprintf("heard of the last renewal %dms ago", (c.local()-a.Heard)/ms)
		switch now := c.local(); {
		case now-a.Heard >= protocol.MaxTTL:
			heard = "new topic"
		case a.Version.Counter == 1:
			heard = fmt.Sprintf("new topic of a register that is %dms old", (now-a.Heard)/ms)
		}
		w.say("%v is appointed in term %d: fences %s, until in %dms, %s", c.self, a.Record.Term, w.fences(a.First, a.Record.Ceiling), (a.Until-c.local())/ms, heard)
		w.beacons(c, c.runs, c.term)
	}
	if e := out.Extended; e != nil {
		c.until, c.version = e.Until, e.Version
		w.oracle.reach = max(w.oracle.reach, e.Ceiling)
		w.oracle.renewed = max(w.oracle.renewed, c.trueTime(e.Renewed))
		c.beacon()
		w.note("%v extends until in %dms, fences below %s", c.self, (e.Until-c.local())/ms, w.fence(e.Ceiling))
	}
	if e := out.Changed; e != nil {
		by := "by default"
		if e.Record.Declared {
			by = "declared by " + e.Record.DeclaredBy
		}
		w.say("%v learns: term %d, root %s, %s %s", c.self, e.Record.Term, name(e.Record.Root), order(&e.Record.Settings), by)
	}
	if d := out.Disagreement; d != nil {
		w.say("%v tells of a conflict: %s, declared by %s, is in force, and %s declares %s", c.self, order(&d.InForce), d.InForceBy, d.DeclaredBy, order(&d.Declared))
	}
	if e := out.Elsewhere; e != nil {
		s := "cannot be the root"
		if e.Stopped {
			s = "stops"
		}
		w.say("%v %s beside a root of another register, in term %d", c.self, s, e.Claim.Epoch.Number)
	}
	if out.Absent {
		w.say("%v finds no record, and may not create one", c.self)
	}
	if out.Departed {
		w.say("%v has departed", c.self)
	}
}

// request carries a request to the register and the answer back.
func (c *candidate) request(r *lease.Request) {
	if r.Kind == lease.NoRequest {
		return
	}
	w, run := c.w, c.runs
	switch {
	case r.Kind == lease.ReadRecord:
		w.note("%v reads", c.self)
	case r.Write.Renewal:
		w.note("%v renews, on version %d", c.self, r.Write.Old.Counter)
	default:
		w.say("%v writes: term %d, root %s, on version %d", c.self, r.Write.Record.Term, name(r.Write.Record.Root), r.Write.Old.Counter)
	}
	in := &lease.Input{Kind: lease.ReadDone, Ref: r.Ref, Outcome: lease.Failed, Age: w.reg.age}
	unanswered := *in
	if r.Kind == lease.WriteRecord {
		in.Kind, unanswered.Kind, unanswered.Outcome = lease.WriteDone, lease.WriteDone, lease.Unknown
	}
	answered := false
	answer := func(in *lease.Input) {
		if !answered && c.runs == run && c.m != nil {
			answered = true
			if in.Outcome != lease.Done {
				w.say("%v is told: %s", c.self, []string{"", "conflict", "unknown", "failed"}[in.Outcome])
			}
			c.feed(in)
		}
	}
	if c.away {
		w.after(w.lease/16, func() { in.Outcome = lease.Failed; answer(in) })
		return
	}
	w.after(w.lease/8, func() { answer(&unanswered) })
	there, back, lost, answerLost := w.net.request(c, r.Kind)
	if lost {
		return
	}
	kind, write := r.Kind, r.Write
	w.after(there, func() {
		if in.Outcome, in.Entry = w.reg.serve(w.now, kind, &write); in.Outcome == lease.Unknown {
			return // it is closed
		}
		if answered && kind == lease.WriteRecord && in.Outcome == lease.Done {
			w.say("a write of %v takes effect late: version %d", c.self, in.Entry.Version.Counter)
		}
		w.oracle.wrote(w)
		if !answerLost {
			w.after(back, func() { answer(in) })
		}
	})
}

// beacons has a root tell everybody of its newest version, again and again.
func (w *world) beacons(c *candidate, run, term uint64) {
	if c.m == nil || c.runs != run || c.until == 0 || c.term != term {
		return
	}
	if !c.paused {
		c.beacon()
	}
	w.after(w.lease/8, func() { w.beacons(c, run, term) })
}

func (c *candidate) beacon() {
	w, v, term := c.w, c.version, c.term
	if !c.acts() || c.cut {
		return
	}
	for _, o := range w.all {
		if delay, lost := w.net.beacon(c, o); o != c && !lost && !o.cut {
			w.after(delay, func() { o.feed(&lease.Input{Kind: lease.Heard, Version: v, Term: term}) })
		}
	}
}

// advance lets true time pass, and everything happen that is due.
func (w *world) advance(d protocol.Duration) {
	end := w.now + d
	for {
		next, i := end+1, -1
		for j := range w.events {
			if e := &w.events[j]; e.at < next || i >= 0 && e.at == next && e.seq < w.events[i].seq {
				next, i = e.at, j
			}
		}
		var ticking *candidate
		for _, c := range w.all {
			if c.m != nil && !c.paused {
				if due := c.due(c.wake); due < next {
					next, ticking = due, c
				}
			}
		}
		if next > end {
			w.now = end
			return
		}
		w.now = next
		if ticking != nil {
			ticking.feed(&lease.Input{Kind: lease.Tick})
			continue
		}
		do := w.events[i].do
		w.events = slices.Delete(w.events, i, i+1)
		do()
	}
}

func (c *candidate) resume() {
	c.paused = false
	waiting := c.waiting
	c.waiting = nil
	for _, do := range waiting {
		do()
	}
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6dms  ", w.now/ms)+fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	if !w.quiet {
		w.say(format, args...)
	}
}

func (w *world) fence(f uint64) string { return fmt.Sprintf("%+d", int64(f-wall)) }

func (w *world) fences(first, end uint64) string {
	return "[" + w.fence(first) + "," + w.fence(end) + ")"
}

func (w *world) flush() string {
	s := strings.Join(w.trace, "\n")
	w.trace = nil
	if s == "" {
		return ""
	}
	return s + "\n"
}

// order is the priority model, which stands for all settings.
func order(s *protocol.Settings) string {
	word, _, _ := strings.Cut(s.Models.String(), "-")
	return word
}

func name(n protocol.Node) string {
	if n.IsZero() {
		return "none"
	}
	if n.Incarnation > 1 {
		return fmt.Sprintf("%s#%d", n.ID, n.Incarnation)
	}
	return n.ID
}
