package padme

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// churn is a world in which members come and go many times in a session, below members
// that do so themselves, and some are killed. Only the root stays.
type churn struct {
	*world
	root    *node
	script  []string
	members int
	grant   protocol.Grant // that is searched for
	since   protocol.Time  // when the search for the token of x began, or somebody last held x alive; 0: no search
	longest protocol.Duration
}

const mostMembers = 16 // at a time

func newChurn(fanout int, models protocol.Models) *churn {
	c := &churn{world: newWorld()}
	c.quiet = true
	c.fanout, c.settings.Models = fanout, models
	c.root = c.add("root", 0, "", true)
	c.stepped = func(*node) { c.observe() }
	return c
}

// bound is how long a search may take: two heartbeats until everybody who can have the
// grant is asked, the first if somebody was found to hold and then died, and a grace until
// whoever was killed by then, and cannot answer, has no session any more.
func (c *churn) bound() protocol.Duration {
	return 2*(c.timing.Heartbeat+c.timing.Hop) + c.timing.Grace()
}

// observe measures the search for the token of x.
func (c *churn) observe() {
	r := c.root.machine.find("x")
	if r == nil || r.tok.recovery == nil {
		c.since = 0
		return
	}
	held := slices.ContainsFunc(c.order, func(name string) bool { n := c.nodes[name]; return !n.crashed && len(n.inside) > 0 })
	if c.since == 0 || held || c.grant != r.tok.grant {
		c.since, c.grant = c.now, r.tok.grant
	}
	c.longest = max(c.longest, c.now-c.since)
	if c.now-c.since > c.bound() {
		rec := r.tok.recovery
		c.fail("the search for a token takes longer than %d ms: everybody is asked: %v, not answered: %v", c.bound()/protocol.Millisecond, rec.all, rec.pending)
	}
}

// some picks a member that lives and for which ok holds, or nil.
func (c *churn) some(i int, ok func(*node) bool) *node {
	var list []*node
	for _, name := range c.order {
		if n := c.nodes[name]; n != c.root && !n.crashed && !n.machine.departing && ok(n) {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[i%len(list)]
}

func anybody(*node) bool                 { return true }
func holds(n *node) bool                 { return len(n.inside) > 0 }
func idle(n *node) bool                  { return len(n.refs) == 0 }
func lives(n *node) bool                 { return n.machine.role == protocol.Member }
func inner(n *node) bool                 { return len(n.machine.children) > 0 }
func innerHolder(n *node) bool           { return inner(n) && holds(n) }
func (c *churn) note(s string, a ...any) { c.script = append(c.script, fmt.Sprintf(s, a...)) }

// play does one thing and lets some time pass.
func (c *churn) play(what string, a int, pass protocol.Duration) {
	var n *node
	switch what {
	case "join":
		if len(c.order) > mostMembers {
			break
		}
		c.members++
		n = c.add(fmt.Sprint("m", c.members), int64(1+a%3), "", false)
	case "request":
		if n = c.some(a, func(n *node) bool { return lives(n) && idle(n) }); n != nil {
			_ = c.do("request " + n.name)
		}
	case "leave":
		if n = c.some(a, holds); n != nil {
			_ = c.do("leave " + n.name)
		}
	case "depart":
		if n = c.some(a, anybody); n != nil {
			_ = c.do("depart " + n.name)
		}
	case "depart inside":
		if n = c.some(a, innerHolder); n != nil {
			_ = c.do("depart " + n.name)
		}
	case "kill":
		if n = c.some(a, anybody); n != nil {
			n.crashed = true
		}
	case "kill inner":
		if n = c.some(a, inner); n != nil {
			n.crashed = true
		}
	}
	if n != nil {
		c.note("%v %s %s", c.now/protocol.Millisecond, what, n.name)
	}
	c.advance(pass, true)
	c.order = slices.DeleteFunc(c.order, func(name string) bool { // or each step looks at all who ever came
		n := c.nodes[name]
		return n.machine.role == protocol.Departed || n.crashed && len(n.inside) == 0
	})
}

var churnMoves = weighted("join", 8, "request", 8, "leave", 6, "depart", 4, "depart inside", 2, "kill", 1, "kill inner", 1)

// TestSearchEndsWhateverComesAndGoes: with tens of arrivals and departures in each
// session, newcomers that are killed included, the search for a token ends in time.
func TestSearchEndsWhateverComesAndGoes(t *testing.T) {
	searches, longest := uint64(0), protocol.Duration(0)
	rapid.Check(t, func(t *rapid.T) {
		c := newChurn(rapid.IntRange(2, 4).Draw(t, "fanout"), drawModels(t))
		for range 8 {
			c.play("join", c.members, 2*c.timing.JoinWait)
		}
		for range rapid.IntRange(100, 300).Draw(t, "moves") {
			c.play(rapid.SampledFrom(churnMoves).Draw(t, "what"), rapid.IntRange(0, 11).Draw(t, "a"),
				protocol.Duration(rapid.IntRange(0, 120).Draw(t, "ms"))*protocol.Millisecond)
			if c.failure != nil {
				t.Fatalf("%v\n%s", c.failure, strings.Join(c.script, "\n"))
			}
		}
		searches += c.root.machine.counters.Syncs
		longest = max(longest, c.longest)
	})
	t.Logf("%d searches, the longest %v ms", searches, longest/protocol.Millisecond)
	if searches == 0 {
		t.Error("no token was searched for")
	}
}
