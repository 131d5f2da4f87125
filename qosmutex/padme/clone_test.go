package padme

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// plainNames writes every number as it is.
func plainNames() *canonical.Names {
	n := &canonical.Names{}
	for s := range n.Slack {
		n.Slack[s] = 1 << 62
	}
	return n
}

func stateOf(m *Machine, now protocol.Time) []byte {
	n := plainNames()
	n.Reset()
	return n.AppendNames(m.AppendState(nil, now, n))
}

// TestCloneDoesTheSame plays random runs with faults. After each move it lets a
// clone of each participant, and then the participant itself, take the same steps:
// they must do the same, and neither may notice the steps of the other. The run goes
// on with another clone.
func TestCloneDoesTheSame(t *testing.T) {
	steps, entries := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom([]kind{calm, changing, wild}).Draw(t, "kind")
		moves := map[kind][]string{calm: calmMoves, changing: treeMoves, wild: slices.Concat(faultMoves, calmMoves)}[k]
		p := newPlayer(t, k)
		p.grow()
		for range rapid.IntRange(20, 120).Draw(t, "moves") {
			p.play(move{rapid.SampledFrom(moves).Draw(t, "what"), rapid.IntRange(0, 11).Draw(t, "a"), rapid.IntRange(0, 47).Draw(t, "b")})
			for _, name := range p.order {
				n := p.nodes[name]
				if n.crashed || n.paused {
					continue
				}
				if problem := compareClones(n, p.clock(n), p.inputsOf(n)); problem != "" {
					t.Fatalf("%s %s\n%s", name, problem, strings.Join(p.script, "\n"))
				}
				steps++
				for _, r := range n.machine.resources {
					entries += len(r.tok.entries)
				}
			}
		}
	})
	if steps == 0 || entries == 0 {
		t.Fatalf("%d steps were compared, with %d entries on tokens", steps, entries)
	}
}

// inputsOf are a few things that could happen to n now.
func (p *player) inputsOf(n *node) []protocol.Input {
	var list []protocol.Input
	for _, from := range p.order {
		if ch := p.channels[[2]string{from, n.name}]; len(ch) > 0 {
			list = append(list, protocol.Input{Kind: protocol.Receive, Message: &ch[0]})
		}
	}
	for _, r := range n.refs {
		kind := protocol.Withdraw
		if r.inside {
			kind = protocol.Leave
		}
		list = append(list, protocol.Input{Kind: kind, Ref: r.ref})
	}
	return append(list, protocol.Input{Kind: protocol.Reconnect}, protocol.Input{Kind: protocol.Tick},
		protocol.Input{Kind: protocol.Acquire, Ref: 1 << 40, Resource: protocol.Any})
}

// compareClones says how a machine, its clone that takes the inputs first, and one
// that takes none differ. The last takes its place.
func compareClones(n *node, now protocol.Time, inputs []protocol.Input) string {
	m := n.machine
	before := stateOf(m, now)
	first, still := m.Clone(), m.Clone()
	if !bytes.Equal(stateOf(first, now), before) {
		return "differs from its clone"
	}
	var outs []string
	if path := sharedMemory(m, first); path != "" {
		return "shares " + path + " with its clone"
	}
	for i := range inputs {
		outs = append(outs, stepText(first, now, &inputs[i]))
	}
	if !bytes.Equal(stateOf(m, now), before) {
		return "was changed by a step of its clone"
	}
	for i := range inputs {
		if out := stepText(m, now, &inputs[i]); out != outs[i] {
			return fmt.Sprintf("and its clone put out different things:\n%s\n%s", out, outs[i])
		}
	}
	switch {
	case !bytes.Equal(stateOf(m, now), stateOf(first, now)) || !reflect.DeepEqual(m.Status(), first.Status()):
		return "and its clone differ after the same steps"
	case !bytes.Equal(stateOf(still, now), before):
		return "changed its clone by a step"
	}
	n.machine = still
	return ""
}

// stepText takes a step and writes down all that it puts out.
func stepText(m *Machine, now protocol.Time, in *protocol.Input) string {
	var out protocol.Output
	err := m.Step(now, in, &out)
	s := fmt.Sprint(err, out.Losses, out.Grants, out.Denials, out.WakeAt)
	for i := range out.Messages {
		s += fmt.Sprintf(" %x", protocol.AppendMessage(nil, &out.Messages[i]))
	}
	if err := m.CheckInvariants(); err != nil {
		s += err.Error()
	}
	return s
}

// sharedMemory names something that both machines refer to and that may change.
func sharedMemory(a, b *Machine) string {
	seen := map[uintptr]bool{}
	references(reflect.ValueOf(a), "", map[uintptr]bool{}, func(_ string, at uintptr) { seen[at] = true })
	shared := ""
	references(reflect.ValueOf(b), "", map[uintptr]bool{}, func(path string, at uintptr) {
		if seen[at] {
			shared = path
		}
	})
	return shared
}

// neverChanges are the fields that machines may share what they refer to.
var neverChanges = map[string]bool{"wanted": true, "early": true, "passed": true, "Resources": true}

// references reports every pointer, slice and map that v leads to.
func references(v reflect.Value, path string, visited map[uintptr]bool, report func(string, uintptr)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !neverChanges[name] {
				references(v.Field(i), path+"."+name, visited, report)
			}
		}
	case reflect.Slice, reflect.Pointer, reflect.Map:
		if v.IsNil() || v.Kind() == reflect.Slice && v.Cap() == 0 || v.Kind() == reflect.Pointer && visited[v.Pointer()] {
			return
		}
		report(path, v.Pointer())
		switch v.Kind() {
		case reflect.Pointer:
			visited[v.Pointer()] = true
			references(v.Elem(), path, visited, report)
		case reflect.Slice:
			for i := range v.Len() {
				references(v.Index(i), path, visited, report)
			}
		default:
			for it := v.MapRange(); it.Next(); {
				references(it.Value(), path, visited, report)
			}
		}
	}
}
