package bench

import (
	"errors"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Victim says whom Crash lets crash.
type Victim uint8

// Victims.
const (
	First     Victim = iota // participant 1, where a server or a root is; it never asks itself
	Bystander               // participant 2, which has the token or a queue only for others
	Holder                  // whoever is inside
)

// Crashes of Crash: when, and how long afterwards it counts who still gets in. The
// longest back-off of a voter lies between.
const (
	crashAt    = 200 * LectureHold
	crashAfter = 20_000 * LectureHop
	crashCount = 200_000 * LectureHop
)

// Crash has n participants ask again and again, lets one of them crash, and returns how
// many of the others asked afterwards and how many of these still entered, in the
// long run.
func Crash(a protocol.Algorithm, n int, v Victim) (asked, entered int, err error) {
	sc := crashScenario(n)
	if v != Holder {
		sc.Participants[v].Workload = &sim.Workload{}
	}
	s, err := sim.New(a, sc)
	if err != nil {
		return 0, 0, err
	}
	if err := s.RunUntil(crashAt); err != nil {
		return 0, 0, err
	}
	victim := nodeName(int(v) + 1)
	if v == Holder {
		if victim, err = inside(s, n); err != nil {
			return 0, 0, err
		}
	}
	s.At(s.Now(), func() { s.Crash(victim) })
	return survivors(s, func(i int) bool {
		p := &sc.Participants[i]
		return p.Workload == nil && p.ID != victim
	})
}

// CrashCoordinators is Crash for k participants that never ask, the last ones, all
// at one instant.
func CrashCoordinators(a protocol.Algorithm, n, k int) (asked, entered int, err error) {
	sc := crashScenario(n)
	for i := n - k; i < n; i++ {
		sc.Participants[i].Workload = &sim.Workload{}
	}
	s, err := sim.New(a, sc)
	if err != nil {
		return 0, 0, err
	}
	s.At(crashAt, func() {
		for i := n - k; i < n; i++ {
			s.Crash(nodeName(i + 1))
		}
	})
	return survivors(s, func(i int) bool { return i < n-k })
}

func crashScenario(n int) sim.Scenario {
	sc := lectureScenario(n)
	sc.Workload = sim.Workload{
		Resources: []string{sim.PaperResource}, Hold: sim.Constant(10 * LectureHop), Think: sim.Exponential(100 * LectureHop),
	}
	return sc
}

// inside runs until somebody is inside, and returns who.
func inside(s *sim.Sim, n int) (string, error) {
	for s.Now() < crashAt+crashAfter {
		for i := range n {
			for _, r := range s.Status(nodeName(i + 1)).Resources {
				if r.Inside {
					return nodeName(i + 1), nil
				}
			}
		}
		if err := s.RunUntil(s.Now() + LectureHop); err != nil {
			return "", err
		}
	}
	return "", errors.New("nobody enters even before the crash")
}

// survivors runs to the end and counts, of those who ask, who enters at last.
func survivors(s *sim.Sim, asks func(i int) bool) (asked, entered int, err error) {
	if err := s.RunUntil(crashAt + crashAfter); err != nil {
		return 0, 0, err
	}
	before := make([]int, len(s.Result().ByNode))
	for i := range before {
		before[i] = s.Result().ByNode[i].Entries
	}
	if err := s.RunUntil(crashAt + crashAfter + crashCount); err != nil {
		return 0, 0, err
	}
	for i, was := range before {
		if !asks(i) {
			continue
		}
		asked++
		if s.Result().ByNode[i].Entries > was {
			entered++
		}
	}
	return asked, entered, nil
}
