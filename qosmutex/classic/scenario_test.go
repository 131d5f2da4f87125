package classic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/protocol"
)

// TestScenarios runs the files in testdata/scenarios, which read like the lectures: who asks
// and leaves, and every message that is sent and every entry that follows. Names are
// in the order of Members. Messages take no time.
//
//	members C D E algorithm=lamport
//	ask D [p1]       try D        leave D        withdraw D        priority D 3
//	manual           from here on nothing arrives but by:
//	deliver D C [2]  the oldest message from D to C, or so many
//	settle           everything, in the order of sending; from here on by itself
//	pass 20ms        time passes
//	waiting          who waits, and who is inside
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q: want run", d.Cmd)
			}
			for _, line := range strings.Split(d.Input, "\n") {
				if f := strings.Fields(line); len(f) > 0 && f[0] == "members" {
					w = scenario(t, f[1:])
				} else if err := w.do(f); err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
			}
			if w.failure != nil {
				t.Errorf("%s: %v", d.Pos, w.failure)
			}
			out := strings.Join(w.trace, "\n")
			w.trace = nil
			if out == "" {
				return "nothing\n"
			}
			return out + "\n"
		})
	})
}

func scenario(t *testing.T, f []string) *world {
	var names []string
	for _, word := range f {
		id, ok := strings.CutPrefix(word, "algorithm=")
		if !ok {
			names = append(names, word)
			continue
		}
		k := slices.IndexFunc(All(), func(a protocol.Algorithm) bool { return a.Name == id })
		if k < 0 {
			t.Fatalf("no algorithm is named %q", id)
		}
		w := newWorld(All()[k], names, 1)
		w.latency = func(int, int) protocol.Duration { return 0 }
		w.tracing = true
		return w
	}
	t.Fatalf("%v names no algorithm", f)
	return nil
}

func (w *world) do(f []string) error {
	if len(f) == 0 || f[0] == "#" {
		return nil
	}
	who := func(i int) (int, error) {
		if i < len(f) {
			if k := slices.Index(w.names, f[i]); k >= 0 {
				return k, nil
			}
		}
		return 0, fmt.Errorf("word %d should name a participant", i)
	}
	switch f[0] {
	case "manual":
		w.manual = true
		return nil
	case "settle":
		w.manual = false
		w.settle()
		return nil
	case "waiting":
		for i, n := range w.nodes {
			if n.inside != 0 {
				w.note("%s is inside", w.names[i])
			}
			if len(n.refs) > 0 {
				w.note("%s waits", w.names[i])
			}
		}
		return nil
	case "pass":
		d, err := time.ParseDuration(f[1])
		w.pass(protocol.Duration(d))
		return err
	}
	i, err := who(1)
	if err != nil {
		return err
	}
	switch f[0] {
	case "ask":
		in := protocol.Input{}
		if len(f) > 2 {
			in.Fixed = true
			if _, err := fmt.Sscanf(f[2], "p%d", &in.Priority); err != nil {
				return err
			}
		}
		w.acquire(i, in)
	case "try":
		w.acquire(i, protocol.Input{Try: true})
	case "leave":
		w.leave(i)
	case "withdraw":
		w.withdraw(i, 0)
	case "priority":
		in := protocol.Input{Kind: protocol.Prioritize}
		if _, err := fmt.Sscan(f[2], &in.Priority); err != nil {
			return err
		}
		w.step(i, in)
	case "deliver":
		return w.deliverSome(f, i, who)
	default:
		return fmt.Errorf("unknown word %q", f[0])
	}
	if !w.manual {
		w.settle()
	}
	return nil
}

func (w *world) deliverSome(f []string, from int, who func(int) (int, error)) error {
	to, err := who(2)
	if err != nil {
		return err
	}
	times := 1
	if len(f) > 3 {
		if _, err := fmt.Sscan(f[3], &times); err != nil {
			return err
		}
	}
	for range times {
		on := [2]int{from, to}
		if c := w.wires[on]; c == nil || len(c.packets) == 0 {
			return fmt.Errorf("nothing is on its way")
		}
		w.deliver(on)
	}
	return nil
}
