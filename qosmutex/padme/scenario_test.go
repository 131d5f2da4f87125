package padme

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/protocol"
)

// TestScenarios runs the files in testdata. Each reads like a figure of the
// paper: a tree, what the applications do, and every message that follows. All
// messages are delivered before the next line, except those held back.
//
//	tree A(B(D E) C) models=fair-forward-use-use resources=x,y p=A0,B1 fanout=2 open=true rho=0.01
//	grow A B C p=A0,B1 trust=true      a tree that finds its shape, of participants in this order; the first creates the topic
//	                   fresh=true      in a register that knows of no topic yet: somebody may have it open elsewhere
//	request D [resource] [p1] [try] [within=1s] [hold=100ms] [client=esp32]
//	leave D [resource]      withdraw D [resource]
//	raise D resource 0      its request that waits becomes as important as that
//	priority D 0      models D level-forward-forward-forward   depart D
//	hold D B          messages from D to B wait                resume D B
//	suspect D B       D is told that B has ended
//	cut D             what D sends and receives is lost        heal D
//	crash D           restart D [parent]                       join F [p0] [under=B]
//	renew D           it is started again, and goes on with what it was inside of
//	appoint D [known] [resumes=x,y]  the record names D the root, which knows all members, and what its process had noted that it held
//	dismiss D         D hears that it is the root no more
//	still             nobody takes over by itself from a root whose lease is over
//	prompt            whom the root names its successor reads so before it hears of it
//	pause D           takes no steps, what is sent to it waits                        unpause D
//	drift D 0.01      its clock runs at 1.01 from now on
//	advance 3s        time passes; messages arrive in the instant they are sent
//	explain           from here on decisions are traced, and how tokens come to who enters
//	manual            from here on nothing is delivered but by:
//	deliver D B       the oldest message from D to B            settle   everything
//	lose D B          it is lost        repeat D B   it comes, and comes again later        later D B   it is overtaken by all others
//	tick 100ms        time passes and nothing is delivered
//	serve 10s         everybody leaves at once, until nobody waits; fails after that time
//	check             every request is known on every hop; nobody is lost from the tree
//	rest              nothing is left of any request, and every token is at home
//	show              roles, parents and queues                show models   what each believes to be in force
//	declare D x,y     resources in the place of defaults
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q: want run", d.Cmd)
			}
			for _, line := range strings.Split(d.Input, "\n") {
				if strings.HasPrefix(line, "tree ") || strings.HasPrefix(line, "grow ") {
					w = newWorld()
				}
				if err := w.do(line); err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
			}
			if w.failure != nil {
				t.Errorf("%s: %v\n%s", d.Pos, w.failure, strings.Join(w.trace, "\n"))
			}
			return w.flush()
		})
	})
}

func (w *world) do(line string) error {
	f := strings.Fields(line)
	if len(f) == 0 || f[0] == "#" {
		return nil
	}
	switch f[0] {
	case "tree":
		return w.tree(line)
	case "grow":
		return w.grow(f[1:])
	}
	var n *node
	if len(f) > 1 {
		n = w.nodes[f[1]]
	}
	arg := func(i int, def string) string {
		if i < len(f) {
			return f[i]
		}
		return def
	}
	switch f[0] {
	case "advance":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		w.advance(protocol.Time(d), true)
		return nil
	case "lose", "repeat", "later":
		w.disorder(f[0], [2]string{f[1], f[2]})
		return nil
	case "tick":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		w.advance(protocol.Time(d), false)
		return nil
	case "manual":
		w.manual = true
		return nil
	case "explain":
		w.explains = true
		return nil
	case "still":
		w.record.still = true
		return nil
	case "prompt":
		w.record.prompt = true
		return nil
	case "settle":
		w.settle()
		return nil
	case "deliver":
		if key := [2]string{f[1], f[2]}; len(w.channels[key]) > 0 {
			w.deliver(key)
		}
		return nil
	case "serve":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		w.serve(protocol.Time(d))
		return nil
	case "check":
		if w.checkTreeShape() {
			w.checkQueued()
		}
		return nil
	case "rest":
		w.checkAtRest()
		return nil
	case "show":
		if arg(1, "") == "models" {
			w.showModels()
			return nil
		}
		w.show()
		return nil
	case "hold", "resume":
		w.held[[2]string{f[1], f[2]}], w.resumed = f[0] == "hold", w.now
		w.arrive()
		return nil
	case "join":
		p, under := int64(100), ""
		for _, o := range f[2:] {
			if v, ok := strings.CutPrefix(o, "under="); ok {
				under = v
			} else if p, _ = strconv.ParseInt(o[1:], 10, 64); o[0] != 'p' {
				return fmt.Errorf("unknown option %q", o)
			}
		}
		w.add(f[1], p, under, false)
		w.joined()
		return nil
	}
	if n == nil {
		return fmt.Errorf("no participant %q", arg(1, ""))
	}
	var err error
	switch f[0] {
	case "request":
		err = w.request(n, f[2:])
	case "leave", "withdraw":
		err = w.end(n, f[0], arg(2, "x"))
	case "raise":
		err = w.raise(n, f[2], arg(3, ""))
	case "priority":
		var p int64
		if p, err = strconv.ParseInt(f[2], 10, 64); err == nil {
			err = w.step(n, &protocol.Input{Kind: protocol.Prioritize, Priority: p})
		}
	case "models":
		var m protocol.Models
		if m, err = protocol.ParseModels(f[2]); err == nil {
			err = w.step(n, &protocol.Input{Kind: protocol.Change, Lease: &protocol.Lease{Settings: protocol.Settings{Models: m, ModelsBy: f[1]}}})
		}
	case "declare", "configure": // NAME RESOURCE,… [open]
		s := protocol.Settings{Resources: strings.Split(f[2], ","), Open: arg(3, "") == "open", ResourcesBy: f[1]}
		kind := protocol.Declare
		if f[0] == "configure" {
			kind = protocol.Change
		}
		err = w.step(n, &protocol.Input{Kind: kind, Lease: &protocol.Lease{Settings: s}})
	case "depart":
		err = w.step(n, &protocol.Input{Kind: protocol.Depart})
	case "crash":
		n.crashed = true
	case "restart":
		w.add(f[1], n.priority, arg(2, n.machine.under), false)
		w.joined()
	case "renew":
		n.crashed = true
		w.goOn(n)
		w.joined()
	case "appoint":
		for _, o := range f[2:] {
			if o == "known" {
				w.know()
			} else if list, ok := strings.CutPrefix(o, "resumes="); ok {
				w.resume(n, strings.Split(list, ","))
			} else {
				return fmt.Errorf("unknown option %q", o)
			}
		}
		w.appoint(n)
	case "dismiss":
		err = w.dismiss(n)
	case "cut":
		n.offline = true
	case "pause":
		n.paused = true
	case "unpause":
		n.paused = false
		err = w.step(n, &protocol.Input{Kind: protocol.Tick})
	case "drift":
		var d float64
		if d, err = strconv.ParseFloat(f[2], 64); err == nil {
			w.setDrift(n, d)
		}
	case "suspect":
		err = w.step(n, &protocol.Input{Kind: protocol.Suspect, Node: w.nodes[f[2]].machine.self})
	case "heal":
		n.offline = false
		err = w.step(n, &protocol.Input{Kind: protocol.Reconnect})
	default:
		return fmt.Errorf("unknown command %q", f[0])
	}
	w.arrive()
	return err
}

// serve lets everybody who is or comes inside leave at once, until nobody waits.
func (w *world) serve(within protocol.Duration) {
	end := w.now + within
	for {
		w.settle()
		waiting, left := "", false
		for _, name := range w.order {
			n := w.nodes[name]
			for _, r := range w.names() {
				if _, ok := n.inside[r]; ok && !n.crashed {
					left = true
					if err := w.end(n, "leave", r); err != nil {
						w.fail("%s cannot leave: %v", name, err)
					}
				}
			}
			if !n.crashed && len(n.refs) > 0 {
				waiting += " " + name
			}
		}
		switch {
		case left:
		case waiting == "":
			return
		case w.now >= end:
			w.fail("still waiting:%s", waiting)
			return
		default:
			w.advance(100*protocol.Millisecond, true)
		}
	}
}

// arrive delivers what follows from a line, unless that is left to other lines.
func (w *world) arrive() {
	if !w.manual {
		w.settle()
	}
}

func (w *world) showModels() {
	for _, name := range w.order {
		if n := w.nodes[name]; !n.crashed {
			w.log("%s %v", name, n.machine.settings.Models)
		}
	}
}

func (w *world) show() {
	for _, name := range w.order {
		n := w.nodes[name]
		if n.crashed {
			w.log("%s crashed", name)
			continue
		}
		s := n.machine.Status()
		line := fmt.Sprintf("%s %v", name, s.Role)
		if !s.Parent.IsZero() {
			line += fmt.Sprintf(" of %s depth %d", s.Parent.ID, s.Depth)
		}
		if s.Role == protocol.Root && n.machine.RulesUntil() <= w.clock(n) {
			line += " not confirmed"
		}
		for _, r := range s.Resources {
			told := ""
			switch {
			case s.Role != protocol.Root:
			case r.Lost:
				told = " lost"
			case r.Holder.Fence != 0 && !r.Inside:
				told = fmt.Sprintf(" held by %s%s fence %d", r.Holder.ID.Node.ID, forWhom(r.HolderClient), r.Holder.Fence)
			case !r.Free && r.TargetClient != "":
				told = fmt.Sprintf(" granted to %s%s", r.Target.Node.ID, forWhom(r.TargetClient))
			}
			if r.Free || r.Inside || r.Waiting > 0 || told != "" {
				line += fmt.Sprintf("; %s free %v inside %v%s waiting %d:", r.Resource, r.Free, r.Inside, told, r.Waiting)
				for _, q := range r.Queue {
					line += fmt.Sprintf(" %s,p%d,c%d%s", q.ID.Node.ID, q.Priority, q.ID.Clock, forWhom(q.Client))
				}
			}
		}
		w.log("%s", line)
	}
}

// play runs lines of a scenario.
func play(t *testing.T, w *world, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := w.do(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	w.sound(t)
}

// sound fails the test if an invariant was broken.
func (w *world) sound(t *testing.T) {
	t.Helper()
	if w.failure != nil {
		t.Fatal(w.failure)
	}
	if w.cyclic != 0 {
		t.Fatal("the scenario ends with a cycle of parents")
	}
}
