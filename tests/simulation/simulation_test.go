package simulation

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/qosmutex/sim"
	"padme/tests/extent"
)

var (
	seeds = flag.Uint64("seeds", extent.Of[uint64](60, 500), "how many seeds to run")
	first = flag.Uint64("first", 1, "the first seed")
	hours = flag.Float64("hours", 0, "run seeds for as many hours instead")
	trace = flag.String("record", "", "write everything that happens in the first seed to this file, and run no other")
	named = flag.String("world", "", "run all seeds in this world; else each draws its own")
)

// chosen is the world of all seeds; nil if each draws its own.
func chosen(t *testing.T) *world {
	w := worldNamed(*named)
	if w == nil && *named != "" {
		t.Fatalf("-world %s: no such world", *named)
	}
	return w
}

// TestEverybodyIsServedAfterFaults runs each seed for at least ten simulated minutes.
func TestEverybodyIsServedAfterFaults(t *testing.T) {
	w := chosen(t)
	if *trace != "" {
		traceFirst(t, w)
		return
	}
	sum, before := newSum(), cpuTime()
	*seeds = extent.InShort(min(10, *seeds), *seeds)
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
				o, err := simulate(seed, w, nil)
				lock.Lock()
				sum.add(o)
				lock.Unlock()
				if err != nil {
					t.Error(reproduction(seed, w, err))
				}
			}
		}()
	}
	wait.Wait()
	sum.cpu = cpuTime() - before
	t.Log(sum)
	if sum.seeds >= 500 {
		sum.check(t, w)
	}
}

// reproduction is one line to reproduce a failure with, and what happened before it.
func reproduction(seed uint64, w *world, err error) string {
	_, again := simulate(seed, w, func(*sim.Record) {}) // with a trace there is a history
	if again != nil {
		err = again
	}
	what, history, _ := strings.Cut(err.Error(), "\n")
	flags := ""
	if w != nil {
		flags = " -world " + w.name
	}
	return fmt.Sprintf("go test ./tests/simulation -first %d -seeds 1%s # %s\n%s", seed, flags, what, history)
}

func traceFirst(t *testing.T, world *world) {
	f, err := os.Create(*trace)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	_, failed := simulate(*first, world, sim.TraceTo(w, nil))
	if err := errors.Join(failed, w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A seed is the same run again, whoever watches.
func TestASeedIsAlwaysTheSameRun(t *testing.T) {
	for i, seed := range []uint64{3, fullShare, 5, 5, 5, 5, 5} {
		w := &worlds[max(0, i-1)]
		a, err := simulate(seed, w, nil)
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		b, err := simulate(seed, w, func(*sim.Record) { records++ })
		if err != nil || !reflect.DeepEqual(a, b) || records == 0 {
			t.Errorf("seed %d of %s: %+v, then %+v with %d records, %v", seed, w.name, a, b, records, err)
		}
	}
}
