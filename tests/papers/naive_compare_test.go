package papers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// naiveWorld is a scenario: who takes part, and the four models. Participants are
// numbers in the order of their names.
type naiveWorld struct {
	level, replace, useReply, useRelease bool // false: Fair, Forward, Forward, Forward
	latency, duration                    int64
	places                               []naivePlace
}

// naivePlace is what a scenario says of one participant. The parent of the root is
// below 0. Who asks does so at the start, and again think after each hold.
type naivePlace struct {
	parent, priority int
	asks             bool
	hold, think      int64
}

// naiveEntry is an entry into the critical section.
type naiveEntry struct {
	at   int64
	node int
}

// TestPADMEReference holds the machine against the reference in random worlds: who
// enters at which nanosecond, and how many messages of each kind that takes.
func TestPADMEReference(t *testing.T) {
	for seed := range uint64(1000) {
		w := randomWorld(seed)
		want := w.run()
		entries, result, err := simulate(w)
		if err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, w)
		}
		for i := range max(len(entries), len(want.entries)) {
			got, ref := rest(entries, i), rest(want.entries, i)
			if len(got) == 0 || len(ref) == 0 || got[0] != ref[0] {
				t.Fatalf("seed %d: from entry %d on the machine has {time node} %v…, the reference %v…\n%+v", seed, i, got, ref, w)
			}
		}
		for _, c := range []struct {
			kind protocol.Kind
			want int
		}{{protocol.KindRequest, want.requests}, {protocol.KindReply, want.replies}, {protocol.KindRelease, want.releases}} {
			if got := int(result.Sent[c.kind]); got != c.want {
				t.Fatalf("seed %d: the machine sent %v %d times, the reference %d\n%+v", seed, c.kind, got, c.want, w)
			}
		}
	}
}

// rest is a few entries from number i on.
func rest(all []naiveEntry, i int) []naiveEntry {
	return all[min(i, len(all)):min(i+3, len(all))]
}

// randomWorld draws a world; the four lowest bits of the seed choose the models.
func randomWorld(seed uint64) naiveWorld {
	const ms = 1_000_000
	random := rand.New(rand.NewPCG(seed, 0))
	maybe := func() bool { return random.IntN(2) == 0 }
	draw := func(steps int64) int64 { return 50 * ms * (steps + random.Int64N(20)) } // much at one instant
	if random.IntN(3) == 0 {
		draw = func(int64) int64 { return 1 + random.Int64N(1000*ms) } // little
	}
	w := naiveWorld{
		level: seed&8 != 0, replace: seed&4 != 0, useReply: seed&2 != 0, useRelease: seed&1 != 0,
		latency: draw(1), duration: (60 + random.Int64N(301)) * 1000 * ms,
		places: make([]naivePlace, 2+random.IntN(14)),
	}
	hold, think := draw(1), draw(0)
	alike, all, ranked := maybe(), maybe(), maybe()
	order := random.Perm(len(w.places)) // so that names tell nothing of places
	for k, i := range order {
		p := &w.places[i]
		*p = naivePlace{parent: -1, priority: random.IntN(4), asks: all || random.IntN(3) > 0, hold: hold, think: think}
		if k > 0 {
			p.parent = order[random.IntN(k)]
		}
		if k > 0 && ranked { // nobody is more important than its parent
			p.priority = min(3, w.places[p.parent].priority+random.IntN(2))
		}
		if !alike {
			p.hold, p.think = draw(1), draw(0)
		}
	}
	return w
}

// simulate plays w with the real machine. Heartbeats, and with them beacons, are so
// rare that none comes in time: participants that are idle from one to the next
// would advance to the root's clock, of which the reference knows nothing.
func simulate(w naiveWorld) ([]naiveEntry, *sim.Result, error) {
	choice := map[bool]uint8{true: 1}
	s := sim.Scenario{
		Timing: protocol.Timing{
			TTL: 100_000 * protocol.Second, Heartbeat: 20_000 * protocol.Second,
			JoinWait: 3 * protocol.Second, MoveAfter: 100_000 * protocol.Second,
		},
		Settings: protocol.Settings{
			Models: protocol.Models{
				Priority: protocol.Priority(choice[!w.level]), Request: protocol.RequestModel(choice[w.replace]),
				Reply: protocol.PassModel(choice[w.useReply]), Release: protocol.PassModel(choice[w.useRelease]),
			},
			Resources: []string{sim.PaperResource},
		},
		Fanout:  len(w.places),
		Network: sim.Network{Latency: sim.Constant(protocol.Duration(w.latency))},
		Start:   1000 * protocol.Second, Duration: protocol.Duration(w.duration),
	}
	name := func(i int) string { return fmt.Sprintf("p%02d", i) }
	number := map[string]int{}
	for i, p := range w.places {
		number[name(i)] = i
		who := sim.Participant{ID: name(i), Priority: int64(p.priority), Root: p.parent < 0, Workload: &sim.Workload{}}
		if !who.Root {
			who.Parent = name(p.parent)
		}
		if p.asks {
			who.Workload.Resources = s.Settings.Resources
			who.Workload.Hold = sim.Constant(protocol.Duration(p.hold))
			who.Workload.Think = sim.Constant(protocol.Duration(p.think))
		}
		s.Participants = append(s.Participants, who)
	}
	var entries []naiveEntry
	s.Trace = func(r *sim.Record) {
		if r.Event == sim.Entered {
			entries = append(entries, naiveEntry{int64(r.At - s.Start), number[r.Node]})
		}
	}
	run, err := sim.New(padme.Algorithm, s)
	if err != nil {
		return nil, nil, err
	}
	result, err := run.Run()
	return entries, result, err
}
