package static_test

import (
	"errors"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// teller tells everybody else of each request of the application.
type teller struct {
	env   *static.Env
	heard *int
}

func (c *teller) Ask(*static.Request) {
	for i := range c.env.N {
		if i != c.env.Self {
			c.env.Send(i, protocol.KindToken)
		}
	}
	c.env.Enter(1)
}

func (c *teller) Leave() {}

func (c *teller) Receive(int, *protocol.Message) error {
	*c.heard++
	return nil
}

// end is one participant of a channel, whose messages are delivered by hand.
type end struct {
	t     *testing.T
	m     protocol.Machine
	now   protocol.Time
	ref   uint64
	heard int
	out   protocol.Output
}

func newEnd(t *testing.T, id string, incarnation uint64, members ...string) *end {
	t.Helper()
	return newEndOf(t, "tellers", id, incarnation, members...)
}

func newEndOf(t *testing.T, algorithm, id string, incarnation uint64, members ...string) *end {
	t.Helper()
	e := &end{t: t}
	a := static.OverLossyChannels(protocol.Algorithm{Name: algorithm, New: func(cfg protocol.Config) (protocol.Machine, error) {
		return static.New(cfg, func(env *static.Env) static.Core { return &teller{env, &e.heard} })
	}})
	m, err := a.New(protocol.Config{
		Self: protocol.Node{ID: id, Incarnation: incarnation}, Timing: protocol.Local(), Members: members,
		Settings: protocol.Settings{Open: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.m = m
	return e
}

// step returns what is sent, as copies.
func (e *end) step(in protocol.Input) ([]protocol.Message, error) {
	err := e.m.Step(e.now, &in, &e.out)
	return slices.Clone(e.out.Messages), err
}

// tell has the core send one message to everybody else.
func (e *end) tell() []protocol.Message {
	e.t.Helper()
	e.ref++
	sent, err := e.step(protocol.Input{Kind: protocol.Acquire, Ref: e.ref, Resource: "crane"})
	if err == nil {
		_, err = e.step(protocol.Input{Kind: protocol.Leave, Ref: e.ref})
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return sent
}

// pass lets time go by and returns what is sent meanwhile.
func (e *end) pass(d protocol.Duration) (sent []protocol.Message) {
	e.t.Helper()
	until := e.now + d
	for {
		out, err := e.step(protocol.Input{Kind: protocol.Tick})
		if err != nil {
			e.t.Fatal(err)
		}
		if sent = append(sent, out...); e.out.WakeAt > until {
			e.now = until
			return sent
		}
		e.now = max(e.now, e.out.WakeAt)
	}
}

func (e *end) receive(m protocol.Message) ([]protocol.Message, error) {
	return e.step(protocol.Input{Kind: protocol.Receive, Message: &m})
}

// A member that is not there costs little, however much there is to tell it.
func TestASilentPeerCostsFewMessages(t *testing.T) {
	a := newEnd(t, "a", 1, "a", "b")
	for range 5000 {
		a.tell()
	}
	a.pass(10 * protocol.Second)
	if n := len(a.pass(60 * protocol.Second)); n == 0 || n > 60 {
		t.Errorf("%d messages in a minute to one that does not answer", n)
	}
}

// One that comes late gets all of it, soon, and nearly nothing twice.
func TestALatePeerIsToldEverything(t *testing.T) {
	a, b := newEnd(t, "a", 1, "a", "b"), newEnd(t, "b", 2, "a", "b")
	const told = 5000
	for range told {
		a.tell()
	}
	a.pass(100 * protocol.Second)
	b.now = a.now
	begin, traveled := a.now, 0
	for b.heard < told {
		if a.now > begin+10*protocol.Second {
			t.Fatalf("%d of %d after %d ms", b.heard, told, (a.now-begin)/protocol.Millisecond)
		}
		wire := a.pass(protocol.Millisecond)
		traveled += len(wire)
		var back []protocol.Message
		for _, m := range wire {
			out, err := b.receive(m)
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, out...)
		}
		back = append(back, b.pass(protocol.Millisecond)...)
		for len(back) > 0 {
			out, err := a.receive(back[0])
			if err != nil {
				t.Fatal(err)
			}
			back = back[1:]
			traveled += len(out)
			for _, m := range out {
				more, err := b.receive(m)
				if err != nil {
					t.Fatal(err)
				}
				back = append(back, more...)
			}
		}
	}
	if traveled > 3*told {
		t.Errorf("%d messages traveled to tell %d", traveled, told)
	}
}

// Receipts that come in time leave nothing to repeat, however busy the channel is.
func TestABusyChannelRepeatsNothing(t *testing.T) {
	a, b := newEnd(t, "a", 1, "a", "b"), newEnd(t, "b", 2, "a", "b")
	type late struct {
		at protocol.Time
		m  protocol.Message
	}
	var there, back []late
	const way = protocol.Millisecond
	for range 2000 {
		for _, m := range append(a.tell(), a.pass(protocol.Millisecond/2)...) {
			there = append(there, late{a.now + way, m})
		}
		b.now = a.now
		for len(there) > 0 && there[0].at <= b.now {
			receipts, err := b.receive(there[0].m)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range receipts {
				back = append(back, late{b.now + way, m})
			}
			there = there[1:]
		}
		for _, m := range b.pass(0) {
			back = append(back, late{b.now + way, m})
		}
		for len(back) > 0 && back[0].at <= a.now {
			if _, err := a.receive(back[0].m); err != nil {
				t.Fatal(err)
			}
			back = back[1:]
		}
	}
	if n := a.m.Status().Counters.Resent; n > 0 {
		t.Errorf("%d of 2000 messages were repeated", n)
	}
}

// One member after the other is started again. Those that are new understand each
// other, whatever those before them have said.
func TestMembersStartedAgainOneByOne(t *testing.T) {
	oldA, oldB := newEnd(t, "a", 1, "a", "b"), newEnd(t, "b", 1, "a", "b")
	deliver := func(to *end, sent []protocol.Message) (back []protocol.Message) {
		for _, m := range sent {
			out, _ := to.receive(m)
			back = append(back, out...)
		}
		return append(back, to.pass(10*protocol.Millisecond)...)
	}
	for range 3 { // each has heard of the other
		deliver(oldA, deliver(oldB, oldA.tell()))
		deliver(oldB, deliver(oldA, oldB.tell()))
	}
	unheard := oldB.tell()
	newA := newEnd(t, "a", 2, "a", "b")
	deliver(newA, unheard) // is for the former one
	told := newA.tell()
	if _, err := oldB.receive(told[0]); !errors.Is(err, static.ErrIncarnation) {
		t.Errorf("the one that was there before: %v", err)
	}
	deliver(newA, oldB.pass(2*protocol.Second))
	newB := newEnd(t, "b", 2, "a", "b")
	newB.now, newA.now = 10*protocol.Second, 10*protocol.Second
	deliver(newA, deliver(newB, newA.pass(0)))
	if _, err := newA.receive(newB.tell()[0]); err != nil {
		t.Errorf("a new one speaks to a new one: %v", err)
	}
	if s := newA.pass(20 * protocol.Second); len(s) > 1 { // a receipt
		t.Errorf("the first new one still repeats %d messages", len(s))
	}
}

// More than can be kept for a peer is never made up for. The channel to it ends, and
// says so when the peer is heard again.
func TestAPeerThatIsTooFarBehindIsGivenUp(t *testing.T) {
	a := newEnd(t, "a", 1, "a", "b", "c")
	b := newEnd(t, "b", 2, "a", "b", "c")
	for range 1<<14 + 1 {
		a.tell()
	}
	if n := len(a.pass(60 * protocol.Second)); n > 60 {
		t.Errorf("%d messages in a minute to two that were given up", n)
	}
	if _, err := a.receive(b.tell()[0]); !errors.Is(err, static.ErrGivenUp) {
		t.Errorf("%v", err)
	}
}

// Whoever leaves is gone when the others know, not before.
func TestLeavingWaitsForReceipts(t *testing.T) {
	a, b := newEnd(t, "a", 1, "a", "b", "c"), newEnd(t, "b", 2, "a", "b", "c")
	if _, err := a.receive(b.tell()[0]); err != nil { // c was never heard: nothing to wait for
		t.Fatal(err)
	}
	sent := a.tell()
	if _, err := a.step(protocol.Input{Kind: protocol.Depart}); err != nil {
		t.Fatal(err)
	}
	if role := a.m.Status().Role; role == protocol.Departed {
		t.Error("departed although b may not know")
	}
	var back []protocol.Message
	for _, m := range sent {
		if m.To.ID == "b" {
			out, err := b.receive(m)
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, out...)
		}
	}
	for _, m := range append(back, b.pass(protocol.Second)...) {
		if m.To.ID == "a" {
			if _, err := a.receive(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if role := a.m.Status().Role; role != protocol.Departed {
		t.Errorf("%v after b knows", role)
	}
}

// Members that do not agree who they are do not understand each other.
func TestMembersThatDisagreeAreRefused(t *testing.T) {
	a := newEnd(t, "a", 1, "a", "b")
	for name, b := range map[string]*end{
		"another order":     newEnd(t, "b", 2, "b", "a"),
		"one more":          newEnd(t, "b", 2, "a", "b", "c"),
		"another algorithm": newEndOf(t, "others", "b", 2, "a", "b"),
	} {
		if _, err := a.receive(b.tell()[0]); !errors.Is(err, static.ErrMembers) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.receive(newEnd(t, "b", 2, "a", "b").tell()[0]); err != nil {
		t.Error(err)
	}
}

// The runtime asks at every step how long holds are valid: that must not grow with
// the resources.
func TestValidUntilCostsNothing(t *testing.T) {
	a := newEnd(t, "a", 1, "a", "b")
	a.tell()
	m := a.m.(interface{ ValidUntil() protocol.Time })
	if n := testing.AllocsPerRun(100, func() { m.ValidUntil() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if until := m.ValidUntil(); until != protocol.Never {
		t.Errorf("valid until %d", until)
	}
}
