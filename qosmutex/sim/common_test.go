package sim

import (
	"maps"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// requestsOf lists of each participant when it asked and with what
// priority, in a run of sc.
func requestsOf(t *testing.T, sc Scenario, also func(*Sim)) (times map[string][]protocol.Time, priorities map[string][]int64) {
	t.Helper()
	times, priorities = map[string][]protocol.Time{}, map[string][]int64{}
	sc.Trace = func(r *Record) {
		if r.Event == Requested {
			times[r.Node] = append(times[r.Node], r.At)
			priorities[r.Node] = append(priorities[r.Node], r.Priority)
		}
	}
	s := mustNew(t, "", sc)
	also(s)
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return times, priorities
}

// TestAllMeetTheSameRequests: what a participant asks for does not depend on the
// network, on the others, nor on when its requests are served.
func TestAllMeetTheSameRequests(t *testing.T) {
	calm := star(3)
	calm.Workload.Hold, calm.Workload.Priorities = Exponential(second), []int64{1, 2, 3, 4}
	calm.Workload.Think, calm.Workload.Every = Distribution{}, Exponential(10*second)
	rough := calm
	rough.Network.Latency = Exponential(2 * second)
	crash := func(s *Sim) {
		s.At(100*second, func() { s.Crash("B") })
		s.At(150*second, func() { s.Restart("B") })
	}
	times, priorities := requestsOf(t, calm, crash)
	otherTimes, otherPriorities := requestsOf(t, rough, crash)
	if len(times["B"]) < 20 || !maps.EqualFunc(times, otherTimes, slices.Equal) || !maps.EqualFunc(priorities, otherPriorities, slices.Equal) {
		t.Errorf("open arrivals differ:\n%v\n%v", times, otherTimes)
	}
	// In a closed loop the times depend on the service, what is drawn does not.
	calm.Workload.Think, calm.Workload.Every = Exponential(second), Distribution{}
	rough.Workload = calm.Workload
	_, priorities = requestsOf(t, calm, func(*Sim) {})
	_, otherPriorities = requestsOf(t, rough, func(*Sim) {})
	for id, all := range priorities {
		other := otherPriorities[id]
		if n := min(len(all), len(other)); n < 10 || !slices.Equal(all[:n], other[:n]) {
			t.Errorf("%s asks with priorities %v and %v", id, all, other)
		}
	}
}
