package sim

import (
	"testing"

	"padme/qosmutex/protocol"
)

// The central server serves in order of arrival. X(5) is inside from 0 to 10 s;
// then come Y(9), Z(1) and, after Y has entered at 10 s, W(9). Y overtakes Z; Z
// overtakes nobody; W is asked for later and less important than all.
func TestInversionsByHand(t *testing.T) {
	r := play(t, nil, wish(0, "A", 5, 10), wish(1, "B", 9, 10), wish(2, "C", 1, 10), wish(12, "A", 9, 10))
	if got, want := r.Inversions, (Inversions{Pending: 1, Known: 1, Overtakers: 1, Victims: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(r.ByPriority) != 3 || r.ByPriority[0].Victims != 1 || r.ByPriority[1].Victims != 0 || r.ByPriority[2].Victims != 0 {
		t.Errorf("victims by priority: %+v", r.ByPriority)
	}
}

// Behind 5, which is inside, wait 9, 8, 7, 1, 2 and 3. 9 overtakes all of the
// others, 8 four of them and 7 three; all but 5 and 9 are victims.
func TestPairsEntriesAndRequestsAreCountedApart(t *testing.T) {
	var all []Arrival
	for i, p := range []int64{5, 9, 8, 7, 1, 2, 3} {
		all = append(all, wish(protocol.Time(i), "ABC"[i%3:i%3+1], p, 10))
	}
	r := play(t, nil, all...)
	if got, want := r.Inversions, (Inversions{Pending: 5 + 4 + 3, Known: 12, Overtakers: 3, Victims: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if r.Entries != 7 {
		t.Errorf("%d entries", r.Entries)
	}
}

// The tree is a star: two messages of a second are the longest way. B enters at
// 12 s (X leaves at 10 s after the start). A request made at 10 s is not known yet,
// one made before 10 s is.
func TestAnInversionIsKnownAfterTheLongestWay(t *testing.T) {
	for at, known := range map[protocol.Time]uint64{7: 1, 9: 1, 10: 0, 11: 0} {
		x := wish(0, "A", 5, 8) // inside from 2 to 10 s
		r := play(t, func(sc *Scenario) { sc.Network.Latency = Constant(second) }, x, wish(1, "B", 9, 1), wish(at, "C", 1, 1))
		if v := r.Inversions; v.Pending != 1 || v.Known != known || v.Victims != 1 {
			t.Errorf("asked at %d s: %+v, want %d known", at, v, known)
		}
	}
}

// A request whose participant becomes more important meanwhile is judged by what
// it is then; a Fixed one keeps its own.
func TestInversionsFollowPriorities(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		sc := star(3)
		sc.Network, sc.Workload = Network{}, Workload{}
		late := wish(2, "C", 9, 1)
		late.Fixed = fixed
		sc.Arrivals = []Arrival{wish(0, "A", 5, 10), wish(1, "B", 7, 1), late}
		s := mustNew(t, "", sc)
		s.At(8*second, func() { s.SetPriority("C", 1) })
		r, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Inversions; (v.Pending == 1) == fixed || (v.Victims == 1) == fixed {
			t.Errorf("fixed=%v: %+v", fixed, v)
		}
		if (r.AtPriority(1) == 1) == fixed {
			t.Errorf("fixed=%v: %+v", fixed, r.ByPriority)
		}
	}
}

// chooser takes the crane for a request for Any.
type chooser struct{ protocol.Machine }

func (m chooser) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	plain := *in
	if plain.Resource == protocol.Any {
		plain.Resource = "crane"
	}
	return m.Machine.Step(now, &plain, out)
}

// A request for Any overtakes others, but nobody overtakes it.
func TestRequestsForAnyOvertakeOnly(t *testing.T) {
	for _, first := range []bool{false, true} {
		algorithm := centralServer("")
		plain := algorithm.New
		algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
			m, err := plain(c)
			return chooser{m}, err
		}
		sc := star(3)
		sc.Network, sc.Workload = Network{}, Workload{}
		sc.Arrivals = []Arrival{wish(0, "A", 5, 10), wish(1, "B", 9, 1), wish(2, "C", 1, 1)}
		want := Inversions{}
		if first {
			sc.Arrivals[1].Resource, want = protocol.Any, Inversions{Pending: 1, Known: 1, Overtakers: 1, Victims: 1}
		} else {
			sc.Arrivals[2].Resource = protocol.Any
		}
		s, err := New(algorithm, sc)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Run(); err != nil || r.Inversions != want || r.Entries != 3 {
			t.Errorf("Any first: %v: %+v in %d entries, want %+v; %v", first, r.Inversions, r.Entries, want, err)
		}
	}
}
