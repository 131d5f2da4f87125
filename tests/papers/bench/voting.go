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
	P        float64 // probability that a coordinator forgets while its vote is out
	Entries  int
	Overlaps int // entries while another was inside
}

// Measured is the share of the entries that found another inside.
func (r ForgetfulRow) Measured() float64 { return float64(r.Overlaps) / float64(r.Entries) }

// Parameters of Forgetful.
const (
	ForgetfulN    = 5
	forgetfulSpan = LectureHold + 2*LectureHop // a vote is out from its Reply to the Release
)

// Forgetful runs the machines of the voting protocol with coordinators that forget
// once in mean on average: five participants, each of which asks again t_m after it
// left, until there were about so many entries.
func Forgetful(mean protocol.Duration, entries int) (ForgetfulRow, error) {
	sc := lectureScenario(ForgetfulN)
	sc.AllowOverlap, sc.Fast = true, true
	sc.Workload = sim.Workload{
		Resources: []string{sim.PaperResource}, Hold: sim.Constant(LectureHold), Think: sim.Constant(LectureHop),
	}
	sc.Duration = protocol.Duration(entries) * LectureHold * 5 / 4
	r, err := Run(classic.Forgetful(mean), sc)
	if err != nil {
		return ForgetfulRow{}, err
	}
	return ForgetfulRow{
		P:       -math.Expm1(-float64(forgetfulSpan) / float64(mean)),
		Entries: r.Entries, Overlaps: int(r.Overlaps),
	}, nil
}
