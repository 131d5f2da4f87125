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
	claimed uint64        // the term of the last root of another register that it heard of
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
	if cfg.CountsUntil != 0 {
		cfg.CountsUntil += c.local()
	}
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
					c.hear(&protocol.Output{Echo: sent})
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

// hear has the lock machine of c say something.
func (c *candidate) hear(said *protocol.Output) { c.feed(&lease.Input{Said: said}) }

func (c *candidate) input(in *lease.Input) error {
	var out lease.Output
	now := c.local()
	if c.until != 0 && now >= c.until { // its holder knows by its own clock
		c.until = 0
	}
	if n := in.Successor; n != c.self && c.stops(n) {
		c.w.say("%v stops for %s", c.self, name(n))
	}
	was := c.m.Status()
	err := c.m.Step(now, in, &out)
	c.wake = out.WakeAt
	c.handle(&out, &was)
	if a := in.Answer; a != nil && a.Outcome == lease.Done && c.m.Status().Entry.Version.Counter == 0 && !c.cfg.Create {
		c.w.say("%v finds no record, and may not create one", c.self)
	}
	c.w.oracle.check(c.w)
	return err
}

// stops has the lock machine of a root stop for a successor.
func (c *candidate) stops(n protocol.Node) bool {
	acted := c.acts() && !n.IsZero()
	if acted {
		c.until = 0
	}
	return acted
}

func (c *candidate) handle(out *lease.Output, was *lease.Status) {
	w := c.w
	acted := was.Acting
	for i := range out.Tell {
		switch in := &out.Tell[i]; in.Kind {
		case protocol.Dismissed:
			c.until = 0
			w.say("%v is dismissed", c.self)
		case protocol.Succeeded:
			w.say("%v hands over to %s", c.self, name(in.Node))
		case protocol.Bar:
			s := "cannot be the root"
			if acted {
				s = "stops"
			}
			w.say("%v %s beside a root of another register, in term %d", c.self, s, c.claimed)
		}
	}
	c.request(&out.Request)
	is := c.m.Status()
	for i := range out.Tell {
		switch l := out.Tell[i].Lease; out.Tell[i].Kind {
		case protocol.Appointed:
			c.until, c.version, c.term, c.heard = l.Until, is.Entry.Version, l.Term, l.Heard
			w.oracle.appointed(c, l)
			w.oracle.renewed = max(w.oracle.renewed, c.trueTime(l.Renewed))
			heard := fmt.Sprintf("heard of the last renewal %dms ago", (c.local()-l.Heard)/ms)
			if c.cfg.Known {
				heard += fmt.Sprintf(", members known %v, holds that go on %d", l.Known, len(l.Held))
			}
			switch now := c.local(); {
			case now-l.Heard >= protocol.MaxTTL:
				heard = "new topic"
			case l.Renewal.Counter == 1:
				heard = fmt.Sprintf("new topic of a register that is %dms old", (now-l.Heard)/ms)
			}
			w.say("%v is appointed in term %d: fences %s, until in %dms, %s", c.self, l.Term, w.fences(l.Fences.Next, l.Fences.End), (l.Until-c.local())/ms, heard)
			w.beacons(c, c.runs, c.term)
		case protocol.Extended:
			c.until, c.version = l.Until, is.Entry.Version
			w.oracle.reach = max(w.oracle.reach, l.Fences.End)
			w.oracle.renewed = max(w.oracle.renewed, c.trueTime(l.Renewed))
			c.beacon()
			w.note("%v extends until in %dms, fences below %s", c.self, (l.Until-c.local())/ms, w.fence(l.Fences.End))
		}
	}
	c.learns(&was.Entry.Record, &is.Entry.Record)
	if is.Departed && !was.Departed {
		w.say("%v has departed", c.self)
	}
}

// proposal asks for other models: for a change of those that were declared, or of defaults.
func proposal(models protocol.Models, by string, change bool) *protocol.Proposal {
	return &protocol.Proposal{Settings: protocol.Settings{Models: models, ModelsBy: by}, Change: change}
}

// learns tells what c has learnt that concerns others.
func (c *candidate) learns(was, is *protocol.Record) {
	if was.Term == is.Term && was.Root == is.Root && was.Settings.Version == is.Settings.Version {
		return
	}
	by := "by default"
	if is.Settings.ModelsBy != "" {
		by = "declared by " + is.Settings.ModelsBy
	}
	c.w.say("%v learns: term %d, root %s, %s %s", c.self, is.Term, name(is.Root), order(&is.Settings), by)
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
	answered := false
	answer := func(a *lease.Answer) {
		if !answered && c.runs == run && c.m != nil {
			answered = true
			if a.Outcome != lease.Done {
				w.say("%v is told: %s", c.self, []string{"", "conflict", "unknown", "failed"}[a.Outcome])
			}
			c.feed(&lease.Input{Answer: a})
		}
	}
	if c.away {
		w.after(w.lease/16, func() { answer(&lease.Answer{Outcome: lease.Failed}) })
		return
	}
	kind, write := r.Kind, r.Write
	unanswered := &lease.Answer{Outcome: lease.Failed}
	if kind == lease.WriteRecord {
		unanswered.Outcome = lease.Unknown
	}
	w.after(w.lease/8, func() { answer(unanswered) })
	there, back, lost, answerLost := w.net.request(c, kind)
	if lost {
		return
	}
	w.after(there, func() {
		a := &lease.Answer{Age: w.now - w.reg.born}
		if a.Outcome, a.Entry = w.reg.serve(w.now, kind, &write); a.Outcome == lease.Unknown {
			return // it is closed
		}
		if answered && kind == lease.WriteRecord && a.Outcome == lease.Done {
			w.say("a write of %v takes effect late: version %d", c.self, a.Entry.Version.Counter)
		}
		w.oracle.wrote(w)
		if !answerLost {
			w.after(back, func() { answer(a) })
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
			w.after(delay, func() { o.hear(beaconOf(v, term, o.cfg.Rank)) })
		}
	}
}

// beaconOf is what the lock machine of a candidate says when the root answers its
// heartbeat.
func beaconOf(v lease.Version, term uint64, rank int) *protocol.Output {
	return &protocol.Output{
		Renewal: protocol.Renewal{Counter: v.Counter, Nonce: v.Nonce}, Rank: rank,
		Claim: protocol.Claim{Register: v.Register(), Epoch: protocol.Epoch{Number: term}, TTL: protocol.Second, Root: true},
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
			ticking.feed(&lease.Input{})
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
