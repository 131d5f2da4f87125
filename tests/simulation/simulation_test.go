package simulation

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

var (
	seeds = flag.Uint64("seeds", 1000, "how many seeds to run")
	first = flag.Uint64("first", 1, "the first seed")
	hours = flag.Float64("hours", 0, "run seeds for as many hours instead")
	trace = flag.String("record", "", "write everything that happens in the first seed to this file, and run no other")
)

// TestEverybodyIsServedAfterFaults runs each seed for at least ten simulated minutes.
func TestEverybodyIsServedAfterFaults(t *testing.T) {
	if *trace != "" {
		traceFirst(t)
		return
	}
	sum, before := newSum(), cpuTime()
	var (
		wait sync.WaitGroup
		lock sync.Mutex
		next = *first
		end  = time.Now().Add(time.Duration(*hours * float64(time.Hour)))
	)
	take := func() (seed uint64, ok bool) {
		lock.Lock()
		defer lock.Unlock()
		if *hours > 0 && time.Now().After(end) || *hours == 0 && next >= *first+*seeds {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range runtime.GOMAXPROCS(0) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for seed, ok := take(); ok; seed, ok = take() {
				o, err := simulate(seed, nil)
				lock.Lock()
				sum.add(o)
				lock.Unlock()
				if err != nil {
					t.Error(reproduction(seed, err))
				}
			}
		}()
	}
	wait.Wait()
	sum.cpu = cpuTime() - before
	t.Log(sum)
	if sum.seeds >= 100 {
		sum.check(t)
	}
}

// reproduction is one line to reproduce a failure with, and what happened before it.
func reproduction(seed uint64, err error) string {
	_, again := simulate(seed, func(*sim.Record) {}) // with a trace there is a history
	if again != nil {
		err = again
	}
	what, history, _ := strings.Cut(err.Error(), "\n")
	return fmt.Sprintf("go test ./tests/simulation -first %d -seeds 1 # %s\n%s", seed, what, history)
}

func traceFirst(t *testing.T) {
	f, err := os.Create(*trace)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	_, failed := simulate(*first, sim.TraceTo(w, nil))
	if err := errors.Join(failed, w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// sum is what all seeds did together.
type sum struct {
	seeds   int
	rounds  int
	entries int
	share   float64
	slowest protocol.Duration
	total   outcome
	cpu     time.Duration
}

func newSum() *sum { return &sum{total: outcome{faults: map[string]int{}}} }

func (s *sum) add(o *outcome) {
	s.seeds++
	s.rounds += o.rounds
	s.entries += o.entries
	s.share, s.slowest = max(s.share, o.share), max(s.slowest, o.slowest)
	s.total.time += o.time
	for name, n := range o.faults {
		s.total.faults[name] += n
	}
	s.total.add(&o.counters)
}

func (s *sum) String() string {
	var b strings.Builder
	n := 0
	for i := range faults {
		n += s.total.faults[faults[i].name]
	}
	fmt.Fprintf(&b, "%d seeds, %.0f s simulated at %.0f s per second of a core, %d faults in %d rounds, %d entries\n",
		s.seeds, inSeconds(s.total.time), inSeconds(s.total.time)/s.cpu.Seconds(), n, s.rounds, s.entries)
	fmt.Fprintf(&b, "everybody was served within %.1f s of the last fault, %.0f %% of the bound\n", inSeconds(s.slowest), 100*s.share)
	for i := range faults {
		fmt.Fprintf(&b, "%s %d, ", faults[i].name, s.total.faults[faults[i].name])
	}
	b.WriteString("\n")
	for _, c := range s.counters() {
		fmt.Fprintf(&b, "%s %d, ", c.name, c.n)
	}
	return b.String()
}

type counter struct {
	name  string
	n     uint64
	voted bool // only machines that elect count it
}

func (s *sum) counters() []counter {
	c := &s.total.counters
	return []counter{
		{"lapses", c.Lapses, false},
		{"holds lost", c.Losses, false},
		{"lapses inside", c.LapsesIn, true},
		{"messages repeated", c.Resent, false},
		{"recoveries", c.Syncs, false},
		{"regenerations", c.Regenerated, false},
		{"grants returned", c.Returned, false},
		{"off-path Releases", c.OffPath, false},
		{"re-attachments", c.Moves, false},
		{"view changes", c.Views, true},
		{"holds adopted", c.Adopted, true},
	}
}

// check demands that the faults reach what they should test.
func (s *sum) check(t *testing.T) {
	for i := range faults {
		if s.total.faults[faults[i].name] == 0 {
			t.Errorf("%d seeds and not one %s", s.seeds, faults[i].name)
		}
	}
	for _, c := range s.counters() {
		if c.n == 0 && (!c.voted || slices.Max(voters) > 0) {
			t.Errorf("%d seeds and no %s", s.seeds, c.name)
		}
	}
}

// A seed is the same run again, whoever watches.
func TestASeedIsAlwaysTheSameRun(t *testing.T) {
	for _, seed := range []uint64{3, fullShare} {
		a, err := simulate(seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		b, err := simulate(seed, func(*sim.Record) { records++ })
		if err != nil || !reflect.DeepEqual(a, b) || records == 0 {
			t.Errorf("seed %d: %+v, then %+v with %d records, %v", seed, a, b, records, err)
		}
	}
}
