package padme

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// joined gives a newcomer the time to find its place.
func (w *world) joined() {
	if !w.manual {
		w.advance(2*w.timing.JoinWait, true)
	}
}

func (w *world) request(n *node, opts []string) error {
	in := protocol.Input{Kind: protocol.Acquire, Resource: "x"}
	for _, o := range opts {
		word, value, _ := strings.Cut(o, "=")
		d, bad := time.ParseDuration(value)
		switch p, err := strconv.ParseInt(strings.TrimPrefix(o, "p"), 10, 64); {
		case word == "client":
			in.Client = value
		case o == "try":
			in.Try = true
		case word == "within" && bad == nil:
			in.Within = protocol.Duration(d)
		case word == "hold" && bad == nil:
			in.Hold = protocol.Duration(d)
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
	n.refs = append(n.refs, request{ref: in.Ref, resource: in.Resource})
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
	} else if in.Ref = n.waiting(resource); in.Ref == 0 {
		return fmt.Errorf("%s does not wait for %s", n.name, resource)
	}
	n.forget(in.Ref)
	return w.step(n, &in)
}

// waiting is the newest request for resource that n waits for; 0: none.
func (n *node) waiting(resource string) (ref uint64) {
	for _, r := range n.refs {
		if r.resource == resource && !r.inside {
			ref = r.ref
		}
	}
	return ref
}

// raise gives what n waits for another priority.
func (w *world) raise(n *node, resource, priority string) error {
	p, err := strconv.ParseInt(priority, 10, 64)
	if err != nil {
		return err
	}
	return w.step(n, &protocol.Input{Kind: protocol.Raise, Ref: n.waiting(resource), Priority: p})
}

// tree builds a static tree: A(B(D E) C).
func (w *world) tree(line string) error {
	shape, opts, _ := strings.Cut(strings.TrimPrefix(line, "tree "), "=")
	if i := strings.LastIndexAny(shape, ") "); opts != "" {
		shape, opts = shape[:i+1], shape[i+1:]+"="+opts
	}
	prio, err := w.options(strings.Fields(opts))
	if err != nil {
		return err
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

// options applies what stands behind a tree, and returns the priorities.
func (w *world) options(opts []string) (map[string]int64, error) {
	prio := map[string]int64{}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "models":
			m, err := protocol.ParseModels(v)
			if err != nil {
				return nil, err
			}
			w.settings.Models = m
		case "resources":
			w.settings.Resources = strings.Split(v, ",")
		case "rho":
			w.timing.Drift, _ = strconv.ParseFloat(v, 64)
		case "fresh":
			w.fresh = v == "true"
		case "trust":
			w.trust = v == "true"
		case "open":
			w.settings.Open = v == "true"
		case "idle":
			w.maxIdle, _ = strconv.Atoi(v)
		case "fanout":
			w.fanout, _ = strconv.Atoi(v)
		case "p":
			for _, np := range strings.Split(v, ",") {
				prio[np[:1]], _ = strconv.ParseInt(np[1:], 10, 64)
			}
		default:
			return nil, fmt.Errorf("unknown option %q", o)
		}
	}
	return prio, nil
}

// grow lets participants find their own places, one after the other.
func (w *world) grow(f []string) error {
	n := slices.IndexFunc(f, func(s string) bool { return strings.Contains(s, "=") })
	if n < 0 {
		n = len(f)
	}
	prio, err := w.options(f[n:])
	if err != nil {
		return err
	}
	w.quiet = true
	for i, name := range f[:n] {
		p, ok := prio[name]
		if !ok {
			p = int64(i)
		}
		w.add(name, p, "", i == 0)
		w.joined()
	}
	w.quiet = false
	return nil
}

func forWhom(client string) string {
	if client == "" {
		return ""
	}
	return " for " + client
}
