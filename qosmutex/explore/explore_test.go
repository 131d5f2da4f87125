package explore

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"padme/qosmutex/protocol"
	"padme/tests/extent"
)

var (
	full = flag.Bool("full", false, "explore what takes a quarter of an hour instead (make explore)")
	one  = flag.String("row", "", "explore this alone, written as the names of the tests are")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // nearly all memory is the search's, and stays
	debug.SetMemoryLimit(12 << 30)
	os.Exit(m.Run())
}

var (
	pair  = []int{-1, 0}
	chain = []int{-1, 0, 1}
	star  = []int{-1, 0, 0}
	four  = []int{-1, 0, 1, 0}
)

// row is a search. Those that need not reach their fixpoint are bounded by states.
type row struct {
	Config
	bounded bool
}

// passes are the four combinations of Reply and Release, with each model of
// Priority and of Request twice.
func passes() []protocol.Models {
	return []protocol.Models{models("lfff"), models("frfu"), models("lruf"), models("fruu")}
}

// fixpoints are searches that end by themselves, within a minute on two cores.
func fixpoints() (rows []row) {
	add := func(parents []int, m protocol.Models, requests int, b Budget) {
		rows = append(rows, row{Config: Config{Parents: parents, Models: m, Requests: requests, Budget: b}})
	}
	for _, m := range protocol.AllModels() {
		add(chain, m, 2, nil)
		add(star, m, 2, nil)
	}
	for i, m := range passes() {
		add(four, m, 1, nil)
		add(chain, m, 2, []Budget{{Withdraw: 1}, {Duplicate: 1}}[i%2])
		add(chain, m, 1, Budget{Cut: 1})
		add(chain, m, 1, Budget{Crash: 1, Tick: Unlimited})
		add(star, m, 1, Budget{Crash: 1, Tick: Unlimited})
		add(chain, m, 1, Budget{Lose: 1, Tick: Unlimited})
	}
	// Grants that nobody uses on the way are provisional: a waiter dies, a holder is
	// paused, and a message is lost, also the heartbeat that asks for confirmation.
	lfff := models("lfff")
	add(star, lfff, 1, Budget{Crash: 1, Lose: 1, Tick: Unlimited})
	add(pair, lfff, 2, Budget{Pause: 1, Tick: Unlimited})
	add(pair, lfff, 1, Budget{Cut: 1, Lose: 1, Tick: Unlimited})
	rows = append(rows, row{Config: Config{Parents: pair, Models: lfff, Requests: 1, Budget: Budget{Lose: 2, Tick: Unlimited}, Upkeep: true}})
	fruu := models("fruu")
	for _, b := range []Budget{{Crash: 1, Restart: 1}, {Cut: 1}, {Pause: 1}, {Suspect: 1}} {
		b[Tick] = Unlimited
		add(pair, fruu, 1, b)
	}
	for _, b := range []Budget{{Depart: 1}, {Outrank: 1}} {
		b[Tick] = Unlimited
		rows = append(rows, row{Config: Config{Parents: pair, Models: fruu, Requests: 1, Budget: b, Adaptive: true}})
	}
	// The root dies, or seems to, and another takes its place.
	for _, b := range []Budget{{Crash: 1, Lose: 1}, {Pause: 1}, {Cut: 1}, {Crash: 1, Restart: 1}} {
		b[Tick] = Unlimited
		rows = append(rows, row{Config: Config{Parents: pair, Models: fruu, Requests: 1, Budget: b, Adaptive: true}})
	}
	rows = append(rows, retaining()...)
	rows = append(rows, directing()...)
	b := Budget{Crash: 1, Tick: Unlimited}
	return append(rows, row{Config: Config{Parents: star, Models: fruu, Requests: 1, Budget: b, Adaptive: true}})
}

// retaining are fixpoints of a participant that retains the token, from its second entry on.
func retaining() (rows []row) {
	lffr, frur := models("lffr"), models("frur")
	for _, b := range []Budget{nil, {Crash: 1}, {Lose: 1}, {Duplicate: 1}, {Cut: 1}} {
		if b != nil {
			b[Tick] = Unlimited
		}
		rows = append(rows, row{Config: Config{Parents: pair, Models: lffr, Requests: 3, Budget: b}})
	}
	for _, c := range []Config{
		{Parents: star, Models: lffr, Requests: 2},
		{Parents: star, Models: frur, Requests: 3},
		{Parents: chain, Models: frur, Requests: 2},
		{Parents: pair, Models: lffr, Requests: 2, Budget: Budget{Withdraw: 1}},
		{Parents: pair, Models: lffr, Requests: 2, Budget: Budget{Crash: 1, Lose: 1, Tick: Unlimited}, Adaptive: true},
	} {
		rows = append(rows, row{Config: c})
	}
	return rows
}

// retained are searches in which the tree or the root changes while a token is retained.
func retained(states int) (rows []row) {
	lffr := models("lffr")
	for _, c := range []Config{
		{Parents: pair, Requests: 3, Budget: Budget{Pause: 1}, Adaptive: true},
		{Parents: pair, Requests: 3, Budget: Budget{Depart: 1, Outrank: 1}, Adaptive: true},
		{Parents: pair, Requests: 3, Budget: Budget{Crash: 1, Restart: 1}, Adaptive: true, Register: true},
		{Parents: pair, Requests: 3, Budget: Budget{Outrank: 1, Late: 1}, Adaptive: true, Register: true},
		{Parents: star, Requests: 3, Budget: Budget{Crash: 1, Lose: 1, Duplicate: 1}},
		{Parents: chain, Requests: 3, Budget: Budget{Cut: 1, Lose: 1}, Adaptive: true},
	} {
		c.Models, c.MaxStates = lffr, states
		c.Budget[Tick] = Unlimited
		rows = append(rows, row{c, true})
	}
	return rows
}

// directing are fixpoints of participants that send the token to each other.
func directing() (rows []row) {
	lffd, frud := models("lffd"), models("frud")
	for _, b := range []Budget{{Crash: 1}, {Lose: 1}, {Duplicate: 1}} {
		b[Tick] = Unlimited
		for i, parents := range [][]int{star, chain} {
			rows = append(rows, row{Config: Config{Parents: parents, Models: []protocol.Models{lffd, frud}[i], Requests: 1, Budget: b}})
		}
	}
	for _, c := range []Config{
		{Parents: star, Models: lffd, Requests: 2},
		{Parents: chain, Models: lffd, Requests: 2},
		{Parents: chain, Models: frud, Requests: 2},
		{Parents: four, Models: lffd, Requests: 1},
		{Parents: star, Models: lffd, Requests: 1, Budget: Budget{Withdraw: 2}},
		{Parents: star, Models: lffd, Requests: 1, Budget: Budget{Crash: 1, Lose: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: star, Models: lffd, Requests: 1, Budget: Budget{Crash: 1, Tick: Unlimited}, Adaptive: true},
	} {
		rows = append(rows, row{Config: c})
	}
	return rows
}

// directed are searches in which more goes wrong, or the tree or the root changes, while a
// token goes from one to another.
func directed(states int) (rows []row) {
	for _, c := range []Config{
		{Parents: star, Requests: 2, Budget: Budget{Crash: 1, Lose: 1, Duplicate: 1}},
		{Parents: chain, Requests: 2, Budget: Budget{Withdraw: 1, Lose: 1}},
		{Parents: four, Requests: 1, Budget: Budget{Crash: 1, Restart: 1}},
		{Parents: star, Requests: 2, Budget: Budget{Pause: 1, Duplicate: 1}, Adaptive: true},
		{Parents: chain, Requests: 1, Budget: Budget{Cut: 1, Lose: 1}, Adaptive: true},
		{Parents: star, Requests: 1, Budget: Budget{Depart: 1, Outrank: 1}, Adaptive: true},
		{Parents: star, Requests: 1, Budget: Budget{Crash: 1, Suspect: 1}, Delay: 1},
		{Parents: star, Requests: 1, Budget: Budget{Lose: 1}, Delay: 1, Upkeep: true},
		{Parents: star, Requests: 1, Budget: Budget{Crash: 1, Restart: 1}, Adaptive: true, Register: true},
		{Parents: star, Requests: 1, Budget: Budget{Outrank: 1, Late: 1}, Adaptive: true, Register: true},
	} {
		c.Models, c.MaxStates = models("lffd"), states
		c.Budget[Tick] = Unlimited
		rows = append(rows, row{c, true})
	}
	return rows
}

// bounded are searches for as far as they get in so many states.
func bounded(states int) (rows []row) {
	for _, m := range passes() {
		for _, c := range []Config{
			{Parents: chain, Requests: 2, Budget: Budget{Crash: 1, Restart: 1, Lose: 1}},
			{Parents: chain, Requests: 1, Budget: Budget{Cut: 1, Pause: 1}},
			{Parents: chain, Requests: 1, Budget: Budget{Crash: 1, Suspect: 1}, Delay: 1},
			{Parents: chain, Requests: 1, Budget: Budget{Outrank: 1}, Adaptive: true},
			{Parents: chain, Requests: 1, Budget: Budget{Depart: 1, Outrank: 1}, Adaptive: true},
			{Parents: chain, Requests: 1, Budget: Budget{Lose: 1}, Delay: 1, Upkeep: true},
			{Parents: four, Requests: 2, Budget: Budget{Crash: 1, Lose: 1, Duplicate: 1}},
		} {
			c.Models, c.MaxStates = m, states
			c.Budget[Tick] = Unlimited
			rows = append(rows, row{c, true})
		}
	}
	return rows
}

// terms are searches in which the root dies, or seems to, and others take its place.
func terms(states int) (rows []row) {
	for _, parents := range [][]int{star, chain} {
		for _, b := range []Budget{{Crash: 1}, {Pause: 1}, {Cut: 1}} {
			b[Tick] = Unlimited
			c := Config{Parents: parents, Adaptive: true, Models: models("fruu"), Requests: 1, Budget: b, MaxStates: states}
			rows = append(rows, row{c, true})
		}
	}
	c := Config{Parents: pair, Adaptive: true, Models: models("fruu"), Requests: 1, Budget: Budget{Cut: 1, Depart: 1, Tick: Unlimited}, MaxStates: states}
	return append(rows, row{c, true})
}

// registers are searches with the register, and all that may be between it and the root.
func registers(ofTwo, ofThree int) (rows []row) {
	for _, parents := range [][]int{pair, star} {
		states := ofTwo
		if len(parents) > 2 {
			states = ofThree
		}
		for _, b := range []Budget{
			{Crash: 1, Unheard: 1},
			{Late: 1, Pause: 1},
			{Cut: 1, Forget: 1},
			{Outrank: 1, Unheard: 1},
			{Outrank: 1, Late: 1},
			{Depart: 1, Lose: 1},
			{Outrank: 1, Duplicate: 1},
			{Crash: 1, Suspect: 1, Restart: 1},
		} {
			b[Tick] = Unlimited
			c := Config{Parents: parents, Adaptive: true, Register: true, Models: models("fruu"), Requests: 1, Budget: b, MaxStates: states}
			rows = append(rows, row{c, true})
		}
	}
	return rows
}

// fullRows are what make explore runs. The first is the aim: all that may go wrong, at
// once, to the fixpoint.
func fullRows() []row {
	aim := Config{
		Parents: chain, Models: models("fruu"), Requests: 2,
		Budget: Budget{Crash: 1, Lose: 1, Duplicate: 1, Tick: Unlimited},
	}
	withdrawn := Config{Parents: chain, Models: aim.Models, Requests: 2, Budget: Budget{Withdraw: 1}}
	return slices.Concat([]row{{Config: aim}, {Config: withdrawn}}, bounded(60_000), retained(120_000), directed(120_000), terms(120_000), registers(60_000, 60_000))
}

func rows() []row {
	const (
		some          = 5000   // states of each bounded search
		termsSome     = 10_000 // another root comes some ticks after the death of the first
		registersSome = 20_000 // and mutants live for longer
	)
	switch {
	case *full:
		return fullRows()
	case raceDetector: // ten times slower, and one goroutine does as much as another
		return atMost(500, append(fixpoints(), bounded(some)...)) // terms are too deep
	case extent.Full():
		return slices.Concat(fixpoints(), bounded(some), retained(registersSome), directed(registersSome), terms(termsSome), registers(registersSome, some))
	}
	return slices.Concat(atMost(1000, fixpoints()), bounded(500), retained(2500), directed(2000), terms(2500), registers(2500, 2000))
}

// atMost bounds searches that would go on to their fixpoint.
func atMost(states int, list []row) []row {
	for i := range list {
		list[i].MaxStates, list[i].bounded = states, true
	}
	return list
}

// TestExplore runs each search and prints how far it came, and how often each kind of
// action was taken. One that was never taken would be a hole in the test.
func TestExplore(t *testing.T) {
	list := rows()
	if *one != "" {
		c, err := parseConfig(strings.ReplaceAll(*one, "_", " "))
		if err != nil {
			t.Fatal(err)
		}
		explore(t, row{c, c.MaxStates > 0})
		return
	}
	var mu sync.Mutex
	var total Result
	t.Cleanup(func() {
		total.Fixpoint = !slices.ContainsFunc(list, func(r row) bool { return r.bounded })
		t.Logf("altogether %v", total)
		for k, n := range total.Taken {
			if n == 0 {
				t.Errorf("%v was never taken", Kind(k))
			}
		}
		if total.Moves == 0 {
			t.Error("nobody moved while inside")
		}
	})
	for _, r := range list {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			result := explore(t, r)
			mu.Lock()
			defer mu.Unlock()
			total.add(&result)
		})
	}
}

// explore runs one search.
func explore(t *testing.T, r row) Result {
	result, err := Explore(r.Config)
	t.Log(result)
	if v := (*Violation)(nil); errors.As(err, &v) {
		_ = Replay(v.Trace, t.Output()) // with every message
	}
	if err != nil {
		t.Fatal(err)
	}
	if !result.Fixpoint && !r.bounded {
		t.Error("did not reach its fixpoint")
	}
	if r.Adaptive && !raceDetector && r.Budget[Crash]+r.Budget[Outrank] > 0 && result.Terms == 0 {
		t.Error("nobody became the root")
	}
	for k, most := range r.Budget {
		if most != 0 && result.Taken[k] == 0 {
			t.Errorf("%v was never taken", k)
		}
	}
	return result
}

// TestReplay prints a run, reads it and plays it again.
func TestReplay(t *testing.T) {
	w, err := newWorld(&Config{Parents: chain, Models: models("fruu"), Requests: 1, Budget: Budget{Crash: 1, Tick: 3}, MaxStates: 9})
	if err != nil {
		t.Fatal(err)
	}
	trace := Trace{Config: *w.cfg}
	for range 30 {
		list := w.actions()
		if len(list) == 0 {
			break
		}
		a := list[len(list)/2]
		trace.Actions = append(trace.Actions, a)
		w = w.after(a, w.out)
	}
	again, err := ParseTrace(trace.String())
	if err != nil {
		t.Fatal(err)
	}
	if again.String() != trace.String() {
		t.Errorf("wrote\n%s\nread\n%s", trace, again)
	}
	if err := Replay(again, t.Output()); err != nil {
		t.Error(err)
	}
	var v *Violation
	again.Actions = append(again.Actions, Action{Kind: Restart, A: 2}, Action{Kind: Restart, A: 2})
	if err := Replay(again, t.Output()); err == nil || errors.As(err, &v) {
		t.Errorf("an impossible action: %v", err)
	}
}

// TestTraces replays the runs in testdata. Each was the counterexample to a machine
// that was broken in the way that its first lines say.
func TestTraces(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(paths) == 0 {
		t.Fatal("no traces", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			trace, err := ParseTrace(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := Replay(trace, t.Output()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, parents := range [][]int{nil, {0}, {-1, -1}, {-1, 2, 1}, {-1, 0, 0, 0, 0, 0, 0}} {
		if _, err := Explore(Config{Parents: parents}); err == nil {
			t.Errorf("parents %v are taken", parents)
		}
	}
	for _, text := range []string{"", "parents=-,A hops=1", "parents=-,A\nfly A", "parents=-,A\ndeliver A"} {
		if _, err := ParseTrace(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
