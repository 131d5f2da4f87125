package chaos_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/chaos"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Duration(rapid.IntRange(0, 5000).Draw(t, "begin")) * time.Millisecond
		cfg := chaos.Config{
			Seed: rapid.Uint64().Draw(t, "seed"), Begin: begin, TTL: time.Second,
			End: begin + time.Duration(rapid.IntRange(8000, 600_000).Draw(t, "span"))*time.Millisecond,
		}
		plan := chaos.Plan(cfg)
		if !reflect.DeepEqual(plan, chaos.Plan(cfg)) {
			t.Fatal("the same seed gives another plan")
		}
		seen := map[chaos.Kind]int{}
		var greatOver, last time.Duration
		for _, f := range plan {
			seen[f.Kind]++
			if f.At < cfg.Begin || f.At+f.Lasts > cfg.End || f.At < last {
				t.Fatalf("%+v, after one at %v, is not in order or not within %v to %v", f, last, cfg.Begin, cfg.End)
			}
			last = f.At
			switch f.Kind {
			case chaos.StopRobot:
				if f.Lasts <= cfg.TTL {
					t.Fatalf("a robot sleeps for %v, which its session of %v survives", f.Lasts, cfg.TTL)
				}
			case chaos.KillRoot, chaos.KillVoter, chaos.KillBroker, chaos.WipeBroker:
				if f.At < greatOver {
					t.Fatalf("%+v before the last of its like was over at %v", f, greatOver)
				}
				greatOver = f.At + f.Lasts
			}
		}
		for _, k := range chaos.Kinds() {
			if seen[k] == 0 {
				t.Fatalf("no %s in %+v", k, plan)
			}
		}
		if seen[chaos.KillBroker] != 1 || seen[chaos.WipeBroker] != 1 {
			t.Fatalf("brokers are killed %v times, want once with and once without their data", seen)
		}
	})
}

func TestSeedsDiffer(t *testing.T) {
	at := func(seed uint64) (all []time.Duration) {
		for _, f := range chaos.Plan(chaos.Config{Seed: seed, End: time.Minute, TTL: time.Second}) {
			all = append(all, f.At)
		}
		return all
	}
	if slices.Equal(at(1), at(2)) {
		t.Fatal("two seeds give the same plan")
	}
}
