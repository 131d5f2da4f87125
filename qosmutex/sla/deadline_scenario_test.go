package sla

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/protocol"
)

// TestDeadlineScenarios runs the files in testdata/deadline. Each says what the
// applications do and shows every message that follows, when it is sent. Times are
// in milliseconds; deadlines are the latest start.
//
//	tree edf-token-b1 parents=0,1,1 hop=10   participants 1, 2, 3 …, whose parents these are
//	inside 1 50                1 asks without a deadline and stays 50
//	ask 3 within=100 hold=30   leaves by itself 30 after it has entered
//	ask 3 try                  enters at once or is refused
//	stay 3 90                  … after 90, whatever it said
//	withdraw 3
//	latency 5                  of every message from here on
//	until 40                   time passes
//	done                       time passes until nothing happens any more; nobody waits
func TestDeadlineScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/deadline", func(t *testing.T, path string) {
		var s *deadlineScenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q: want run", d.Cmd)
			}
			for _, line := range strings.Split(d.Input, "\n") {
				f := strings.Fields(line)
				if len(f) > 0 && f[0] == "tree" {
					s = newDeadlineScenario(t, f[1], f[2:])
				} else if len(f) > 0 {
					s.do(f)
				}
			}
			return s.flush()
		})
	})
}

// deadlineScenario is a pump that tells what happens.
type deadlineScenario struct {
	*pump
	test      *testing.T
	log       strings.Builder
	seen      int // messages up to this pumpEvent.seq are told
	entered   int
	denied    int
	transit   protocol.Duration
	stay      []protocol.Duration // after the next entry, by participant
	overstays []bool
}

func newDeadlineScenario(t *testing.T, algorithm string, options []string) *deadlineScenario {
	all := Deadlines()
	for _, a := range Deadlines() { // their literal forms
		o := DeadlineOptions{Acknowledge: strings.HasPrefix(a.Name, "edf-ack"), Preempt: -1, Literal: true}
		if _, b, ok := strings.Cut(a.Name, "-b"); ok {
			o.Preempt, _ = strconv.Atoi(b)
		}
		all = append(all, Deadline(o))
	}
	i := slices.IndexFunc(all, func(a protocol.Algorithm) bool { return a.Name == algorithm })
	if i < 0 {
		t.Fatalf("no algorithm %q", algorithm)
	}
	var parents []int
	for _, p := range strings.Split(deadlineOption(t, options, "parents"), ",") {
		parent, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		parents = append(parents, parent-1)
	}
	hop := deadlineMilliseconds(t, deadlineOption(t, options, "hop"))
	s := &deadlineScenario{
		test: t, transit: hop, stay: make([]protocol.Duration, len(parents)), overstays: make([]bool, len(parents)),
	}
	s.pump = newPump(t, all[i], len(parents), parents, func(_ int, cfg *protocol.Config) { cfg.Timing.Hop = hop })
	s.latency = func(_, _ int) protocol.Duration { return s.transit }
	s.onEnter = func(e pumpEntry) {
		s.overstays[e.node] = false
		s.at(s.now+s.stay[e.node], func() { s.leave(e.node); s.tell("%s leaves", s.name(e.node)) })
	}
	return s
}

func deadlineOption(t *testing.T, options []string, name string) string {
	for _, o := range options {
		if v, ok := strings.CutPrefix(o, name+"="); ok {
			return v
		}
	}
	t.Fatalf("%q has no %s", options, name)
	return ""
}

func deadlineMilliseconds(t *testing.T, s string) protocol.Duration {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Duration(v * float64(protocol.Millisecond))
}

func (s *deadlineScenario) do(f []string) {
	ms := func(text string) protocol.Duration { return deadlineMilliseconds(s.test, text) }
	who := func() int {
		i, err := strconv.Atoi(f[1])
		if err != nil || i < 1 || i > len(s.nodes) {
			s.t.Fatalf("%q names nobody", f)
		}
		return i - 1
	}
	switch f[0] {
	case "#":
	case "inside":
		i := who()
		s.stay[i] = ms(f[2])
		s.acquire(i, protocol.Input{Hold: s.stay[i]})
	case "ask":
		i := who()
		in := protocol.Input{}
		for _, o := range f[2:] {
			switch k, v, _ := strings.Cut(o, "="); k {
			case "within":
				in.Within = ms(v)
			case "hold":
				in.Hold = ms(v)
			case "try":
				in.Try = true
			}
		}
		if !s.overstays[i] {
			s.stay[i] = in.Hold
		}
		s.acquire(i, in)
	case "stay":
		i := who()
		s.stay[i], s.overstays[i] = ms(f[2]), true
	case "withdraw":
		s.withdraw(who(), s.nodes[who()].ref)
	case "latency":
		s.transit = ms(f[1])
	case "until":
		s.pass(ms(f[1]))
	case "done":
		s.pass(s.now + 100*protocol.Second)
		for i, n := range s.nodes {
			if len(n.waiting) > 0 {
				s.tell("%s waits for ever", s.name(i))
			}
		}
	default:
		s.t.Fatalf("unknown command %q", f[0])
	}
	s.report()
}

// pass lets time pass and tells each thing as it happens.
func (s *deadlineScenario) pass(until protocol.Time) {
	for {
		next := protocol.Never
		if i := s.next(); i >= 0 {
			next = s.events[i].at
		}
		if i := s.nextWake(); i >= 0 {
			next = min(next, s.nodes[i].wakeAt)
		}
		if next > until {
			s.now = max(s.now, until)
			return
		}
		s.runUntil(next)
		s.report()
	}
}

// report tells what is new.
func (s *deadlineScenario) report() {
	for _, e := range s.entries[s.entered:] {
		s.tell("%s enters, fence %d", s.name(e.node), e.fence)
	}
	for _, d := range s.denials[s.denied:] {
		s.tell("%s is refused: %v", s.name(d.node), d.reason)
	}
	for _, e := range s.events {
		if e.seq > s.seen && e.msg != nil {
			s.tell("%s→%s %s", s.name(e.from), s.name(e.to), deadlineText(e.msg))
		}
	}
	s.entered, s.denied, s.seen = len(s.entries), len(s.denials), s.seq
}

func (s *deadlineScenario) tell(format string, args ...any) {
	fmt.Fprintf(&s.log, "%v ", float64(s.now)/float64(protocol.Millisecond))
	fmt.Fprintf(&s.log, format+"\n", args...)
}

func (s *deadlineScenario) flush() string {
	defer s.log.Reset()
	return s.log.String()
}

func deadlineText(m *protocol.Message) string {
	wish := func(id protocol.RequestID, within, hold protocol.Duration) string {
		text := id.Node.ID
		if within != 0 {
			text += fmt.Sprintf(" within %v", float64(within)/float64(protocol.Millisecond))
		}
		if hold != 0 {
			text += fmt.Sprintf(" hold %v", float64(hold)/float64(protocol.Millisecond))
		}
		return text
	}
	switch m.Kind {
	case protocol.KindRequest:
		return "Request " + wish(m.ID, m.Within, m.Hold)
	case protocol.KindToken:
		text := fmt.Sprintf("Token fence %d", m.Fences.Next)
		for _, w := range m.Wishes {
			text += "; " + wish(w.ID, w.Within, w.Hold)
		}
		return text
	}
	return m.Kind.String() + " " + m.ID.Node.ID
}
