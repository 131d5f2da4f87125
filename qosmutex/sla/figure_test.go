package sla

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// figure is a tree whose queues can be read.
type figure struct {
	*pump
	cores []*core
}

// newFigure makes a tree of n participants that follow r.
func newFigure(t failer, r rules, n int, parents []int) *figure {
	f := &figure{cores: make([]*core, n)}
	a := protocol.Algorithm{New: func(cfg protocol.Config) (protocol.Machine, error) {
		newCore, err := r.cores(&cfg)
		if err != nil {
			return nil, err
		}
		return static.New(cfg, func(env *static.Env) static.Core {
			f.cores[env.Self] = newCore(env)
			return f.cores[env.Self]
		})
	}}
	f.pump = newPump(t, a, n, parents, nil)
	return f
}

// state shows who is inside and every queue that is not empty.
func (f *figure) state() string {
	var b strings.Builder
	if f.inside >= 0 {
		fmt.Fprintf(&b, "%s is inside\n", f.name(f.inside))
	}
	for _, c := range f.cores {
		if c != nil && len(c.queue) > 0 {
			fmt.Fprintln(&b, c)
		}
	}
	return b.String()
}

// TestFigures runs the files in testdata/priority, which read like Figure 1 of the
// SLA paper. Participants are numbered from 1, values are the paper's: 0 is the
// least important.
//
//	tree kanrar-chaki 2→1 3→1 …   a new tree; level c=2
//	request 11(3) 10(3)           one after the other, each settled; then every queue
//	change 11(1)                  the request of 11 has another priority; then every queue
//	leave 1                       1 leaves, and everything settles; then every queue
//	serve                         everybody leaves at once until nobody waits: the order
func TestFigures(t *testing.T) {
	datadriven.Walk(t, "testdata/priority", func(t *testing.T, path string) {
		var f *figure
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "tree" {
				f = readTree(t, d)
				return ""
			}
			f.t = t
			switch d.Cmd {
			case "request":
				for _, arg := range d.CmdArgs {
					node, value := parseRequest(t, arg)
					f.prioritize(node, value)
					f.acquire(node, protocol.Input{})
					f.settle()
				}
			case "change":
				node, value := parseRequest(t, d.CmdArgs[0])
				f.prioritize(node, value)
				f.settle()
			case "leave":
				f.leave(parseNode(t, d.CmdArgs[0].Key))
				f.settle()
			case "serve":
				return f.serve()
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return f.state()
		})
	})
}

// prioritize gives a participant a value of the paper's scale.
func (f *figure) prioritize(i int, value int64) {
	f.must(i, &protocol.Input{Kind: protocol.Prioritize, Priority: wireOf(value)})
}

// serve lets everybody leave until nobody waits.
func (f *figure) serve() string {
	var names []string
	for _, i := range f.drain() {
		names = append(names, f.name(i))
	}
	return "order: " + strings.Join(names, " ") + "\n"
}

// readTree makes the figure of a tree command.
func readTree(t *testing.T, d *datadriven.TestData) *figure {
	c := DefaultPostponement
	parents := []int{-1}
	for _, arg := range d.CmdArgs[1:] {
		if arg.Key == "c" {
			d.ScanArgs(t, "c", &c)
			continue
		}
		child, parent, ok := strings.Cut(arg.Key, "→")
		if !ok {
			d.Fatalf(t, "%q is no link", arg.Key)
		}
		for i := parseNode(t, child); len(parents) <= i; {
			parents = append(parents, -2)
		}
		parents[parseNode(t, child)] = parseNode(t, parent)
	}
	r, ok := map[string]rules{
		"raymond": raymond, "kanrar-chaki": kanrarChaki, "kanrar-chaki-piggyback": kanrarChakiPiggyback,
		"chang": chang, "level": level(c), "level-distance": levelDistance(c),
	}[d.CmdArgs[0].Key]
	if !ok {
		d.Fatalf(t, "unknown algorithm %q", d.CmdArgs[0].Key)
	}
	return newFigure(t, r, len(parents), parents)
}

func parseNode(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n - 1
}

func parseRequest(t *testing.T, arg datadriven.CmdArg) (node int, value int64) {
	if _, err := fmt.Sscanf(arg.Key, "%d(%d)", &node, &value); err != nil {
		t.Fatalf("%q is no request: %v", arg.Key, err)
	}
	return node - 1, value
}
