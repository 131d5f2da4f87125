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
//	tree A(B(D E) C) models=fair-forward-use-use resources=x,y p=A0,B1 fanout=2
//	request D [resource] [p1] [try]    leave D [resource]      withdraw D [resource]
//	priority D 0      models D level-forward-forward-forward   depart D
//	hold D B          messages from D to B wait                resume D B
//	cut D             what D sends and receives is lost        heal D
//	crash D           restart D [parent]                       join F [p0] [under=B]
//	advance 3s
//	show              roles, parents and queues                status of each participant
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q: want run", d.Cmd)
			}
			for _, line := range strings.Split(d.Input, "\n") {
				if strings.HasPrefix(line, "tree ") {
					w = newWorld()
				}
				if err := w.do(line); err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
			}
			if w.failure != nil {
				t.Errorf("%s: %v", d.Pos, w.failure)
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
	if f[0] == "tree" {
		return w.tree(line)
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
		w.advance(protocol.Time(d))
		return nil
	case "show":
		w.show()
		return nil
	case "hold", "resume":
		w.held[[2]string{f[1], f[2]}] = f[0] == "hold"
		w.settle()
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
		w.advance(2 * w.timing.JoinWait)
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
	case "priority":
		var p int64
		if p, err = strconv.ParseInt(f[2], 10, 64); err == nil {
			err = w.step(n, &protocol.Input{Kind: protocol.Prioritise, Priority: p})
		}
	case "models":
		var m protocol.Models
		if m, err = protocol.ParseModels(f[2]); err == nil {
			err = w.step(n, &protocol.Input{Kind: protocol.SetModels, Models: m})
		}
	case "depart":
		err = w.step(n, &protocol.Input{Kind: protocol.Depart})
	case "crash":
		n.crashed = true
	case "restart":
		w.add(f[1], n.machine.cfg.Priority, arg(2, n.machine.cfg.Parent), false)
		w.advance(2 * w.timing.JoinWait)
	case "cut":
		n.offline = true
	case "heal":
		n.offline = false
		err = w.step(n, &protocol.Input{Kind: protocol.Reconnect})
	default:
		return fmt.Errorf("unknown command %q", f[0])
	}
	w.settle()
	return err
}

func (w *world) request(n *node, opts []string) error {
	in := protocol.Input{Kind: protocol.Acquire, Resource: "x"}
	for _, o := range opts {
		switch p, err := strconv.ParseInt(strings.TrimPrefix(o, "p"), 10, 64); {
		case o == "try":
			in.Try = true
		case o[0] == 'p' && err == nil:
			in.Priority, in.Fixed = p, true
		default:
			in.Resource = o
		}
	}
	return w.acquire(n, &in)
}

func (w *world) acquire(n *node, in *protocol.Input) error {
	w.nextRef++
	in.Ref = w.nextRef
	n.refs = append(n.refs, request{in.Ref, in.Resource})
	return w.step(n, in)
}

// end leaves what n is inside of, or withdraws what it waits for.
func (w *world) end(n *node, how, resource string) error {
	in := protocol.Input{Kind: protocol.Withdraw}
	if how == "leave" {
		g, ok := n.inside[resource]
		if !ok {
			return fmt.Errorf("%s is not inside %s", n.name, resource)
		}
		in.Kind, in.Ref = protocol.Leave, g.Ref
		delete(n.inside, resource)
	} else {
		for _, r := range n.refs {
			if _, in2 := n.inside[r.resource]; r.resource == resource && !in2 {
				in.Ref = r.ref
			}
		}
	}
	n.forget(in.Ref)
	return w.step(n, &in)
}

// tree builds a static tree: A(B(D E) C).
func (w *world) tree(line string) error {
	shape, opts, _ := strings.Cut(strings.TrimPrefix(line, "tree "), "=")
	if i := strings.LastIndexAny(shape, ") "); opts != "" {
		shape, opts = shape[:i+1], shape[i+1:]+"="+opts
	}
	prio := map[string]int64{}
	for _, o := range strings.Fields(opts) {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "models":
			m, err := protocol.ParseModels(v)
			if err != nil {
				return err
			}
			w.settings.Models = m
		case "resources":
			w.settings.Resources = strings.Split(v, ",")
		case "open":
			w.settings.Open = v == "true"
		case "fanout":
			w.fanout, _ = strconv.Atoi(v)
		case "p":
			for _, np := range strings.Split(v, ",") {
				prio[np[:1]], _ = strconv.ParseInt(np[1:], 10, 64)
			}
		default:
			return fmt.Errorf("unknown option %q", o)
		}
	}
	w.quiet = true
	var stack []string
	last := ""
	for _, c := range shape {
		switch {
		case c == '(':
			stack = append(stack, last)
		case c == ')':
			stack = stack[:len(stack)-1]
		case c != ' ':
			last = string(c)
			parent := ""
			if len(stack) > 0 {
				parent = stack[len(stack)-1]
			}
			p, ok := prio[last]
			if !ok {
				p = int64(len(stack))
			}
			w.add(last, p, parent, parent == "")
			w.settle()
		}
	}
	w.quiet = false
	return nil
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
		for _, r := range s.Resources {
			if r.Free || r.Inside || r.Waiting > 0 {
				line += fmt.Sprintf("; %s free %v inside %v waiting %d:", r.Resource, r.Free, r.Inside, r.Waiting)
				for _, q := range r.Queue {
					line += fmt.Sprintf(" %s,p%d,c%d", q.ID.Node.ID, q.Priority, q.ID.Clock)
				}
			}
		}
		w.log("%s", line)
	}
}
