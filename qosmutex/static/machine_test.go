package static_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// plain is a core that asks member 0 and enters when it is told to, with what it
// was called written down.
type plain struct {
	env   *static.Env
	log   *[]string
	asked bool
}

func (c *plain) note(format string, args ...any) {
	*c.log = append(*c.log, fmt.Sprintf(format, args...))
}

func (c *plain) Ask(r *static.Request) {
	c.asked = true
	c.note("ask p%d c%d", r.Priority, r.ID.Clock)
	c.env.Send(0, protocol.KindRequest).ID = r.ID
}

func (c *plain) Leave() {
	c.note("leave")
	c.env.Send(0, protocol.KindRelease)
}

var errNotReply = errors.New("not a Reply")

func (c *plain) Receive(from int, m *protocol.Message) error {
	switch m.Kind {
	case protocol.KindReply:
		if !c.asked {
			return errNotReply
		}
		c.env.Enter(m.Fences.Next)
	case protocol.KindDeny:
		c.env.Refuse(m.Reason)
	default:
		return errNotReply
	}
	c.note("%v from %d", m.Kind, from)
	return nil
}

// able is plain with everything that a core may do beside.
type able struct{ plain }

func (c *able) Change(r *static.Request) { c.note("change p%d c%d", r.Priority, r.ID.Clock) }
func (c *able) Cancel()                  { c.note("cancel") }
func (c *able) Free() bool               { return true }
func (c *able) Tick()                    { c.note("tick"); c.env.WakeAt(protocol.Never) }
func (c *able) Ask(r *static.Request) {
	c.plain.Ask(r)
	c.env.WakeAt(c.env.Now() + 5)
}

// harness drives one machine and writes down what comes out of it.
type harness struct {
	t   *testing.T
	m   *static.Machine
	log []string
	out protocol.Output
}

func newHarness(t *testing.T, isAble bool, change func(*protocol.Config)) *harness {
	r := &harness{t: t}
	cfg := protocol.Config{
		Self: protocol.Node{ID: "b", Incarnation: 7}, Priority: 3, Timing: protocol.Local(), Members: []string{"a", "b", "c"},
		Settings: protocol.Settings{Resources: []string{"truck", "crane"}},
	}
	if change != nil {
		change(&cfg)
	}
	m, err := static.New(cfg, func(e *static.Env) static.Core {
		if isAble {
			return &able{plain{env: e, log: &r.log}}
		}
		return &plain{env: e, log: &r.log}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	return r
}

func (r *harness) step(now protocol.Time, in protocol.Input) error {
	err := r.m.Step(now, &in, &r.out)
	for _, m := range r.out.Messages {
		r.log = append(r.log, fmt.Sprintf("%v to %s", m.Kind, m.To.ID))
	}
	for _, g := range r.out.Grants {
		r.log = append(r.log, fmt.Sprintf("grant %d fence %d", g.Ref, g.Fence))
	}
	for _, d := range r.out.Denials {
		r.log = append(r.log, fmt.Sprintf("deny %d: %v", d.Ref, d.Reason))
	}
	return err
}

func (r *harness) must(now protocol.Time, in protocol.Input) {
	r.t.Helper()
	if err := r.step(now, in); err != nil {
		r.t.Fatal(err)
	}
}

// expect compares what happened since the last call.
func (r *harness) expect(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.log, want) {
		r.t.Fatalf("got\n\t%s\nwant\n\t%s", strings.Join(r.log, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.log = r.log[:0]
}

func acquire(ref uint64, resource string) protocol.Input {
	return protocol.Input{Kind: protocol.Acquire, Ref: ref, Resource: resource}
}

func fixed(ref uint64, priority int64) protocol.Input {
	return protocol.Input{Kind: protocol.Acquire, Ref: ref, Resource: "crane", Priority: priority, Fixed: true}
}

func from(who string, kind protocol.Kind, resource string) protocol.Input {
	return protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
		Kind: kind, From: protocol.Node{ID: who, Incarnation: 1}, To: protocol.Node{ID: "b"}, Resource: resource,
		Clock: 20, Fences: protocol.Fences{Next: 9}, Reason: protocol.ReasonUnattainable,
	}}
}

func of(kind protocol.InputKind, ref uint64) protocol.Input {
	return protocol.Input{Kind: kind, Ref: ref}
}

func TestOneRequestAtATimeTheMostImportantFirst(t *testing.T) {
	r := newHarness(t, false, nil)
	r.must(0, acquire(1, "crane"))
	r.expect("ask p3 c1", "Request to a")
	r.must(0, fixed(2, 5))
	r.must(0, fixed(3, 1))
	r.must(0, fixed(4, 5))
	r.must(0, acquire(5, "truck")) // another lock, another core
	r.expect("ask p3 c3", "Request to a")
	r.must(1, from("a", protocol.KindReply, "crane"))
	r.expect("Reply from 0", "grant 1 fence 9")
	r.must(2, of(protocol.Leave, 1))
	r.expect("leave", "ask p1 c22", "Release to a", "Request to a") // the clock is above the message's
	for _, next := range []string{"3", "2", "4"} {
		r.must(3, from("a", protocol.KindReply, "crane"))
		if got := r.log[1]; got != "grant "+next+" fence 9" {
			t.Fatalf("%s, want that of %s", got, next)
		}
		r.must(4, of(protocol.Leave, r.out.Grants[0].Ref))
		r.log = r.log[:0]
	}
}

func TestWithdrawal(t *testing.T) {
	r := newHarness(t, false, nil)
	r.must(0, acquire(1, "crane"))
	r.must(0, acquire(2, "crane"))
	r.log = r.log[:0]
	r.must(0, of(protocol.Withdraw, 2)) // the core never heard of it
	r.must(0, of(protocol.Withdraw, 1)) // the core waits on: it has no Cancel
	r.expect()
	r.must(1, from("a", protocol.KindReply, "crane"))
	r.expect("Reply from 0", "leave", "Release to a")

	r.must(2, acquire(3, "crane"))
	r.must(2, of(protocol.Withdraw, 3))
	r.log = r.log[:0]
	r.must(2, acquire(4, "crane")) // takes the place of the one given up
	r.expect()
	r.must(3, from("a", protocol.KindReply, "crane"))
	r.expect("Reply from 0", "grant 4 fence 9")
	for _, ref := range []uint64{1, 3, 4, 5} {
		if err := r.step(4, of(protocol.Withdraw, ref)); !errors.Is(err, static.ErrRef) {
			t.Errorf("withdrawing %d: %v", ref, err)
		}
	}
	if err := r.step(4, of(protocol.Leave, 3)); !errors.Is(err, static.ErrRef) {
		t.Errorf("leaving 3: %v", err)
	}
}

func TestARequestWithdrawnAndRefusedEndsQuietly(t *testing.T) {
	r := newHarness(t, false, nil)
	r.must(0, acquire(1, "crane"))
	r.must(0, of(protocol.Withdraw, 1))
	r.log = r.log[:0]
	r.must(1, from("a", protocol.KindDeny, "crane"))
	r.expect("Deny from 0")
	r.must(2, acquire(2, "crane"))
	r.log = r.log[:0]
	r.must(3, from("a", protocol.KindDeny, "crane"))
	r.expect("Deny from 0", "deny 2: deadline unattainable")
}

func TestWhatACoreMayDo(t *testing.T) {
	r := newHarness(t, true, nil)
	r.must(0, acquire(1, "crane"))
	if r.out.WakeAt != 5 {
		t.Errorf("wakes at %d", r.out.WakeAt)
	}
	r.log = r.log[:0]
	r.must(4, protocol.Input{Kind: protocol.Tick})
	r.expect()
	r.must(5, protocol.Input{Kind: protocol.Tick})
	r.expect("tick")
	r.must(6, protocol.Input{Kind: protocol.Prioritize, Priority: 8})
	r.expect("change p8 c1")
	r.must(6, of(protocol.Withdraw, 1))
	r.expect("cancel")
	r.must(7, protocol.Input{Kind: protocol.Acquire, Ref: 2, Resource: "crane", Try: true})
	r.expect("ask p8 c3", "Request to a")
	r.must(7, protocol.Input{Kind: protocol.Acquire, Ref: 3, Resource: "crane", Try: true})
	r.expect("deny 3: busy")
}

func TestRefusals(t *testing.T) {
	r := newHarness(t, false, func(cfg *protocol.Config) { cfg.MaxWaiting = 1 })
	for ref, want := range map[uint64]struct {
		in   protocol.Input
		want string
	}{
		1: {acquire(1, protocol.Any), "deny 1: not supported by the algorithm"},
		2: {acquire(2, "boat"), "deny 2: undeclared resource"},
		3: {acquire(3, ""), "deny 3: undeclared resource"},
		4: {protocol.Input{Kind: protocol.Acquire, Ref: 4, Resource: "crane", Try: true}, "deny 4: busy"},
	} {
		if r.must(0, want.in); len(r.log) != 1 || r.log[0] != want.want {
			t.Errorf("%d: %q, want %q", ref, r.log, want.want)
		}
		r.log = r.log[:0]
	}
	r.must(0, acquire(5, "crane"))
	r.must(0, acquire(6, "crane"))
	r.log = r.log[:0]
	r.must(0, acquire(7, "crane"))
	r.expect("deny 7: too many waiting")
	if err := r.step(0, acquire(6, "crane")); !errors.Is(err, static.ErrRef) {
		t.Errorf("a repeated Ref: %v", err)
	}
	r.must(0, protocol.Input{Kind: protocol.Depart})
	if s := r.m.Status(); s.Role != protocol.Departed || s.ValidUntil != 0 {
		t.Errorf("%+v", s)
	}
	r.must(0, acquire(8, "crane"))
	r.expect("deny 8: closed")
}

func TestMessagesThatFitNothingChangeNothing(t *testing.T) {
	r := newHarness(t, false, nil)
	r.must(0, acquire(1, "crane"))
	before := fmt.Sprint(r.m.Status().Resources)
	toAnother := from("a", protocol.KindReply, "crane")
	toAnother.Message.To.ID = "c"
	for name, in := range map[string]protocol.Input{
		"a stranger": from("x", protocol.KindReply, "crane"), "ourselves": from("b", protocol.KindReply, "crane"),
		"to another": toAnother, "unknown resource": from("a", protocol.KindReply, "boat"),
		"no resource": from("a", protocol.KindReply, ""), "the core says no": from("a", protocol.KindToken, "crane"),
	} {
		if err := r.step(1, in); !errors.Is(err, static.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := fmt.Sprint(r.m.Status().Resources); after != before || r.m.Status().Counters.Invalid != 6 {
		t.Errorf("%s became %s", before, after)
	}
}

func TestConfigurations(t *testing.T) {
	ok := protocol.Config{Self: protocol.Node{ID: "b"}, Timing: protocol.LAN(), Members: []string{"a", "b"}}
	for name, change := range map[string]func(*protocol.Config){
		"nobody":       func(c *protocol.Config) { c.Self = protocol.Node{} },
		"not a member": func(c *protocol.Config) { c.Members = []string{"a"} },
		"twice":        func(c *protocol.Config) { c.Members = []string{"b", "a", "b"} },
		"nameless":     func(c *protocol.Config) { c.Members = []string{"b", ""} },
		"timing":       func(c *protocol.Config) { c.Timing = protocol.Timing{} },
	} {
		cfg := ok
		change(&cfg)
		if _, err := static.New(cfg, nil); !errors.Is(err, protocol.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := static.New(ok, nil); err != nil {
		t.Error(err)
	}
}

// In an open topic a stranger may name what it likes, but not without end.
func TestResourcesAreBounded(t *testing.T) {
	r := newHarness(t, false, func(cfg *protocol.Config) { cfg.Settings = protocol.Settings{Open: true} })
	for i := range protocol.MaxResources {
		if err := r.step(0, from("a", protocol.KindReply, fmt.Sprint(i))); i == 0 && err == nil {
			t.Fatal("a Reply that nobody asked for was taken")
		}
	}
	if err := r.step(0, from("a", protocol.KindReply, "one more")); !errors.Is(err, static.ErrInvalid) {
		t.Errorf("%v", err)
	}
	r.log = r.log[:0]
	r.must(0, acquire(1, "one more"))
	r.expect("deny 1: too many waiting")
}
