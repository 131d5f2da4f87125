package bench

import (
	"math"
	"math/rand/v2"

	"padme/qosmutex/classic"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// VoteSwitch is the lecture's picture of the voting protocol, played trials times: of
// n coordinators m voted for A, who is inside, and the others for B. Each of the m
// forgets with probability p, and votes for B as well. It returns how often B has m
// votes, too: exclusion is broken.
func VoteSwitch(n, m int, p float64, trials int, seed uint64) float64 {
	r := rand.New(rand.NewPCG(seed, uint64(n)<<32|uint64(m)))
	broken := 0
	for range trials {
		forB := n - m
		for range m {
			if r.Float64() < p {
				forB++
			}
		}
		if forB >= m {
			broken++
		}
	}
	return float64(broken) / float64(trials)
}

// ForgetfulRow is what the voting protocol shows whose coordinators forget.
type ForgetfulRow struct {
	Entries  int
	Overlaps int // entries while another was inside
}

// Measured is the share of the entries that found another inside.
func (r ForgetfulRow) Measured() float64 { return share(float64(r.Overlaps), float64(r.Entries)) / 100 }

// Parameters of Forgetful. The stay is long against a round trip, so that the others
// try again often while one is inside.
const (
	ForgetfulN    = 5
	forgetfulHold = 4000 * LectureHop
	forgetfulSpan = forgetfulHold + 2*LectureHop // a vote is out from its Reply to the Release
)

// Forgetful runs the machines of the voting protocol where a coordinator forgets with
// probability p while its vote is out: five participants, each of which asks again
// t_m after it left, for as long as so many critical sections take.
func Forgetful(p float64, stays int) (ForgetfulRow, error) {
	mean := protocol.Duration(-float64(forgetfulSpan) / math.Log1p(-p))
	sc := lectureScenario(ForgetfulN)
	sc.AllowOverlap, sc.Fast = true, true
	sc.Workload = sim.Workload{
		Resources: []string{sim.PaperResource}, Hold: sim.Constant(forgetfulHold), Think: sim.Constant(LectureHop),
	}
	sc.Duration = protocol.Duration(stays) * forgetfulHold
	r, err := Run(classic.Forgetful(mean), sc)
	if err != nil {
		return ForgetfulRow{}, err
	}
	return ForgetfulRow{Entries: r.Entries, Overlaps: int(r.Overlaps)}, nil
}

// AtLeast is the probability that at least m of n coordinators forget, each with
// probability p: what it takes to break exclusion if all n voted for the one inside.
func AtLeast(n, m int, p float64) float64 {
	sum := 0.0
	for k := m; k <= n; k++ {
		ways := 1.0
		for i := range k {
			ways = ways * float64(n-i) / float64(i+1)
		}
		sum += ways * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
	}
	return sum
}
