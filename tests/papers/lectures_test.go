package papers

import (
	"math"
	"testing"

	"padme/qosmutex/classic"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

// lectureRow is what the lectures' comparison must show for nine participants:
// messages per entry and times in t_m, each within ±tolerance of its value.
type lectureRow struct {
	algorithm                 protocol.Algorithm
	inTurn, alone, saturated  float64 // NaN: not stated
	response, least, most     float64 // of an uncontended request at most; synchronization delay
	first, bystander, whoHeld int     // who still enters after a crash, of eight
}

// TestLectureComparison holds the classical algorithms to the lectures' formulas with
// nine participants. The server's own entries cost a central server nothing, so that
// 3 messages become 3·8/9; a voter of Maekawa's asks the 4 others of its row and
// column; voting gives its votes back, which the lecture's 2(N-1) leaves out.
func TestLectureComparison(t *testing.T) {
	const n, others = 9, 8
	none := math.NaN()
	for _, want := range []lectureRow{
		{classic.Central, 3 * 8. / 9, 3, 3 * 8. / 9, 2, 1, 2, 0, others, 0},
		{classic.CentralFIFO, 3 * 8. / 9, 3, 3 * 8. / 9, 2, 1, 2, 0, others, 0},
		{classic.TokenRing, none, n, 1, 2 * n, 1, 1, 0, 0, 0},
		{classic.Lamport, 3 * others, 3 * others, 3 * others, 2, 1, 1, 0, 0, 0},
		{classic.RicartAgrawala, 2 * others, 2 * others, 2 * others, 2, 1, 1, 0, 0, 0},
		{classic.Maekawa, 12, 12, none, 2, 2, 2, 0, 0, 0},
		{classic.Voting, 3 * others, 3 * others, none, 2, 2, none, others, others, 0},
		{classic.SuzukiKasami, none, none, n, 2, 1, 1, others, others, 0},
		{classic.NaimiTrehel, none, none, none, n, 1, 1, others, others, 0},
		{sla.Raymond, none, none, none, 2 * 5, 1, none, 5, 0, 0},
	} {
		t.Run(want.algorithm.Name, func(t *testing.T) {
			got, err := bench.Lecture(want.algorithm, n)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", *got)
			if got.Entries != got.Wanted {
				t.Errorf("saturated: %d of %d requests were served", got.Entries, got.Wanted)
			}
			const (
				exact = 1e-9
				start = 0.25 // the ring's first round and its last
			)
			tolerance := exact
			if want.algorithm.Name == classic.TokenRing.Name || want.algorithm.Name == classic.SuzukiKasami.Name {
				tolerance = start
			}
			near(t, "messages in turn", got.InTurn, want.inTurn, tolerance)
			near(t, "messages alone", got.Alone, want.alone, tolerance)
			near(t, "messages saturated", got.Saturated, want.saturated, tolerance)
			if got.ResponseMost > want.response {
				t.Errorf("an uncontended request waits %v t_m, at most %v is right", got.ResponseMost, want.response)
			}
			near(t, "least synchronization delay", got.DelayLeast, want.least, exact)
			near(t, "greatest synchronization delay", got.DelayMost, want.most, exact)
			for v, left := range map[bench.Victim]int{bench.First: want.first, bench.Bystander: want.bystander, bench.Holder: want.whoHeld} {
				asked, entered, err := bench.Crash(want.algorithm, n, v)
				if err != nil {
					t.Fatal(err)
				}
				if asked != others || entered != left {
					t.Errorf("after the crash of victim %d, %d of %d enter, want %d of %d", v, entered, asked, left, others)
				}
			}
		})
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !math.IsNaN(want) && math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.3f, want %.3f ± %v", what, got, want, tolerance)
	}
}

// TestLectureBounds holds what depends on chance or on the order of requests: the
// cure for Maekawa's deadlocks costs at most as much again, every round of voting
// 3(N-1), a path of Naimi and Trehel's log₂ N on average, and Raymond's requests
// twice the distance.
func TestLectureBounds(t *testing.T) {
	for _, n := range []int{7, 9} {
		for _, c := range []struct {
			algorithm   protocol.Algorithm
			least, most float64 // saturated
		}{
			{classic.Maekawa, 9, 24},
			{classic.Voting, 2 * float64(n-1), math.Inf(1)},
			{classic.NaimiTrehel, 1, math.Log2(float64(n)) + 1},
			{sla.Raymond, 2, 4},
		} {
			got, err := bench.Lecture(c.algorithm, n)
			if err != nil {
				t.Fatal(err)
			}
			if got.Saturated < c.least || got.Saturated > c.most {
				t.Errorf("%s, N = %d: %.2f messages per entry, want %.1f to %.1f", c.algorithm.Name, n, got.Saturated, c.least, c.most)
			}
		}
	}
}

// TestMaekawaNeedsItsCure runs the lecture's form, which may deadlock: when all ask at
// once, everybody waits for somebody's vote.
func TestMaekawaNeedsItsCure(t *testing.T) {
	got, err := bench.Lecture(classic.MaekawaNaive, 9)
	if err != nil {
		t.Fatal(err)
	}
	if got.Entries == got.Wanted {
		t.Errorf("all of %d requests were served without the cure", got.Wanted)
	}
}

// TestVotingSurvivesCrashedCoordinators holds voting to the lecture: it tolerates
// ⌈N/2⌉-1 failures, and not one more.
func TestVotingSurvivesCrashedCoordinators(t *testing.T) {
	for n := 3; n <= 9; n++ {
		k := (n+1)/2 - 1
		for crashed, all := range map[int]bool{0: true, k: true, k + 1: false} {
			asked, entered, err := bench.CrashCoordinators(classic.Voting, n, crashed)
			if err != nil {
				t.Fatal(err)
			}
			if all && entered != asked || !all && entered > 0 {
				t.Errorf("N = %d: after %d crashes %d of %d still enter", n, crashed, entered, asked)
			}
		}
	}
}
