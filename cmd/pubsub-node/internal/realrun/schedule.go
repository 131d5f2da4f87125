package realrun

import (
	"math/rand/v2"
	"slices"
	"time"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// mostAskings bounds what a process is told to ask for.
const mostAskings = 200_000

// schedule is what the simulator would have a participant ask for: in a closed loop, and at
// given times.
func schedule(sc *sim.Scenario, i int) (loop, clock []asking) {
	p := &sc.Participants[i]
	for j := range sc.Arrivals {
		if a := &sc.Arrivals[j]; a.Node == p.ID && a.At < sc.Duration {
			clock = append(clock, askingOf(p, &a.Request, a.At))
		}
	}
	w := p.Workload
	if w == nil {
		w = &sc.Workload
	}
	if len(w.Resources) == 0 {
		return nil, clock
	}
	draws := sc.Draws(i)
	at := draws.First()
	if w.Every != (sim.Distribution{}) {
		for at < sc.Duration && len(clock) < mostAskings {
			r, gap := draws.Next()
			clock = append(clock, askingOf(p, &r, at))
			at += gap
		}
		return nil, clock
	}
	after, least := at, at // least: how much time has passed at least, if all are refused at once
	for len(loop) < mostAskings {
		r, gap := draws.Next()
		loop = append(loop, askingOf(p, &r, after))
		if least >= sc.Duration { // that one comes too late even then
			break
		}
		after = gap
		if least += gap; len(w.Deadlines) == 0 {
			least += r.Hold
		}
	}
	return loop, clock
}

func askingOf(p *sim.Participant, r *sim.Request, after protocol.Duration) asking {
	a := asking{
		After: time.Duration(after), Resource: r.Resource, Hold: time.Duration(r.Hold), Priority: p.Priority,
		Fixed: r.Fixed, Within: time.Duration(r.Within), GiveUp: r.GiveUp,
	}
	if r.Fixed {
		a.Priority = r.Priority
	}
	return a
}

// drawn is how many latencies a process has to draw from for each of the others.
const drawn = 200

// delaysOf are how long messages of a participant take, by receiver.
func delaysOf(sc *sim.Scenario, i int) map[string][]time.Duration {
	chance := rand.New(rand.NewPCG(sc.Seed, uint64(i)<<32|0x6c696e6b))
	all := map[string][]time.Duration{}
	for j := range sc.Participants {
		if i == j {
			continue
		}
		var some []time.Duration
		for range drawn {
			some = append(some, time.Duration(sim.DrawLatency(sc.Network.Latency, chance, i, j)))
		}
		if least, most := slices.Min(some), slices.Max(some); least == most {
			if some = some[:1]; most == 0 {
				continue
			}
		}
		all[sc.Participants[j].ID] = some
	}
	return all
}

// flatOf is one latency that is like those of a scenario.
func flatOf(delays map[string][]time.Duration) time.Duration {
	var all []time.Duration
	for _, some := range delays {
		all = append(all, some...)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
