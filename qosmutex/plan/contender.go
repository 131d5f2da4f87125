package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// Contender is one choice.
type Contender struct {
	Algorithm protocol.Algorithm
	Models    protocol.Models   // of PADME
	Fanout    int               // children of each node of the tree; 0: the algorithm has none
	TTL       protocol.Duration // of PADME's sessions; 0: the scenario's
}

// String is such as "padme:LFFD, fan-out 8".
func (c Contender) String() string {
	name := c.Algorithm.Name
	if !c.Algorithm.Static {
		name += ":" + Initials(c.Models)
	}
	if c.Fanout > 0 {
		name += fmt.Sprintf(", fan-out %d", c.Fanout)
	}
	return name
}

// Initials are those of four models, such as "LFFD", as [protocol.ParseModels] reads them.
func Initials(m protocol.Models) string {
	var initials strings.Builder
	for word := range strings.SplitSeq(m.String(), "-") {
		initials.WriteString(strings.ToUpper(word[:1]))
	}
	return initials.String()
}

// usualFanout is that of PADME's participants if nobody chooses another.
const usualFanout = 8

// Contenders lists what n participants can choose from: today's choice first, and of the
// others those first that differ least from the defaults. Where two cannot be told apart the
// earlier one is recommended, and a budget that is too small is spent on the first.
func Contenders(today Contender, algorithms []protocol.Algorithm, n int) []Contender {
	all := []Contender{today}
	add := func(c Contender) {
		if !slices.ContainsFunc(all, func(o Contender) bool { return o.String() == c.String() }) {
			all = append(all, c)
		}
	}
	for _, fanout := range fanouts(n) {
		for _, a := range algorithms {
			switch {
			case !a.Static:
				for _, m := range combinations() {
					add(Contender{Algorithm: a, Models: m, Fanout: fanout})
				}
			case HasTree(a):
				add(Contender{Algorithm: a, Fanout: fanout})
			default:
				add(Contender{Algorithm: a})
			}
		}
	}
	return all
}

// HasTree reports whether the members of an algorithm form a tree, which has a fan-out.
func HasTree(a protocol.Algorithm) bool {
	return !a.Static || strings.Contains(a.Assumes, "static tree")
}

// fanouts are the usual one and those that give n participants another tree.
func fanouts(n int) []int {
	all := []int{usualFanout}
	for _, f := range []int{4, 2} {
		if f < n-1 {
			all = append(all, f)
		}
	}
	if usualFanout < n-1 {
		all = append(all, 64) // that of the lock node of a broker
	}
	return all
}

// combinations are the models that differ in what they do, those first that differ least
// from the default. Under Deadline all are as Forward, and under Direct all but Priority.
func combinations() []protocol.Models {
	var all []protocol.Models
	for _, m := range protocol.Combinations() {
		forward := m.Request == protocol.RequestForward && m.Reply == protocol.Forward
		deadline := m.Priority == protocol.Deadline
		if forward && (m.Release == protocol.Forward || !deadline) || !deadline && m.Release != protocol.Direct {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b protocol.Models) int {
		return cmp.Or(cmp.Compare(changes(a), changes(b)), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Release, b.Release),
			cmp.Compare(a.Reply, b.Reply), cmp.Compare(a.Request, b.Request))
	})
	return all
}

// changes is how many of the models are not the default.
func changes(m protocol.Models) (n int) {
	for _, changed := range []bool{m.Priority != protocol.Level, m.Request != protocol.RequestForward, m.Reply != protocol.Forward, m.Release != protocol.Forward} {
		if changed {
			n++
		}
	}
	return n
}
