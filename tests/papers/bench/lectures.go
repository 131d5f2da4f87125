package bench

import (
	"math/rand/v2"
	"strconv"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Parameters of the lectures' comparison.
const (
	LectureHop   = 10 * protocol.Millisecond // t_m, to and from everybody
	LectureHold  = 40 * LectureHop           // long enough for all else to settle
	lectureTurns = 40                        // entries of each participant that asks
	lectureSlack = 100 * LectureHop          // after which nothing is on its way any more
	// If nobody has entered for that long, nobody will: it is ten times the longest
	// back-off there is.
	lecturePatience = 100_000 * LectureHop
)

// LectureRow is what one algorithm shows in the comparison of the lectures. Counts are
// messages per entry, times are in t_m.
type LectureRow struct {
	// InTurn: one after another asks, in a random order, when everything of the one
	// before has settled. Alone: the last participant asks again the moment it leaves,
	// nobody else ever. Saturated: so does everybody; 0 if not everybody got in.
	InTurn, Alone, Saturated float64
	// Response is the wait of the requests made in turn, on average and at most.
	Response, ResponseMost float64
	// Delay is the synchronization delay when saturated: from a leave to the next entry.
	Delay, DelayLeast, DelayMost float64
	Entries, Wanted              int // when saturated
}

// Lecture measures algorithm a with n participants; where it needs a tree, with the
// complete binary one.
func Lecture(a protocol.Algorithm, n int) (*LectureRow, error) {
	row := &LectureRow{}
	order := rand.New(rand.NewPCG(1, uint64(n)))
	var inTurn []sim.Arrival
	for range lectureTurns {
		for _, i := range order.Perm(n) {
			at := protocol.Time(len(inTurn)) * (LectureHold + lectureSlack)
			inTurn = append(inTurn, lectureArrival(i, at))
		}
	}
	r, err := playLecture(a, n, inTurn)
	if err != nil {
		return nil, err
	}
	row.InTurn = r.PerEntry()
	row.Response, row.ResponseMost = hops(r.Waiting().Mean()), hops(r.Waiting().Quantile(1))

	if r, err = playLecture(a, n, atOnce(n-1, n)); err != nil {
		return nil, err
	}
	row.Alone = r.PerEntry()

	all := atOnce(0, n)
	if r, err = playLecture(a, n, all); err != nil {
		return nil, err
	}
	row.Entries, row.Wanted = r.Entries, len(all)
	if row.Entries == row.Wanted {
		row.Saturated = r.PerEntry()
	}
	row.Delay = hops(r.SyncDelay.Mean())
	row.DelayLeast, row.DelayMost = hops(r.SyncDelay.Quantile(0)), hops(r.SyncDelay.Quantile(1))
	return row, nil
}

// atOnce has the participants from first to before end make all their requests at
// the start: each waits at its own participant until the one before has left, and is
// made at that instant.
func atOnce(first, end int) []sim.Arrival {
	var all []sim.Arrival
	for range lectureTurns {
		for i := first; i < end; i++ {
			all = append(all, lectureArrival(i, 0))
		}
	}
	return all
}

func lectureArrival(i int, at protocol.Time) sim.Arrival {
	return sim.Arrival{At: at, Node: nodeName(i + 1), Request: sim.Request{Resource: sim.PaperResource, Hold: LectureHold}}
}

// playLecture runs until everybody has been inside and all has settled, or it has
// become clear that not everybody will be.
func playLecture(a protocol.Algorithm, n int, arrivals []sim.Arrival) (*sim.Result, error) {
	sc := lectureScenario(n)
	sc.Arrivals = arrivals
	s, err := sim.New(a, sc)
	if err != nil {
		return nil, err
	}
	for entries, since := 0, s.Now(); entries < len(arrivals) && s.Now()-since < lecturePatience; {
		if err := s.RunUntil(s.Now() + LectureHop); err != nil {
			return nil, err
		}
		if now := s.Result().Entries; now > entries {
			entries, since = now, s.Now()
		}
	}
	if err := s.RunUntil(s.Now() + LectureHold); err != nil {
		return nil, err
	}
	return s.Result(), s.Settle(lectureSlack)
}

func lectureScenario(n int) sim.Scenario {
	timing := protocol.LAN()
	timing.Hop = LectureHop
	sc := sim.Scenario{
		Seed: 1, Timing: timing, Fanout: 2,
		Settings: protocol.Settings{Resources: []string{sim.PaperResource}},
		Network:  sim.Network{Latency: sim.Constant(LectureHop)},
		Duration: 365 * 24 * 3600 * protocol.Second,
	}
	for i := range n {
		sc.Participants = append(sc.Participants, sim.Participant{ID: nodeName(i + 1)})
	}
	return sc
}

func hops(d protocol.Duration) float64 { return float64(d) / float64(LectureHop) }

func nodeName(i int) string { return "n" + strconv.Itoa(i) }
