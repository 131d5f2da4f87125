package sim

import (
	"strconv"

	"padme/qosmutex/protocol"
)

// Report is a Result for programs, as JSON. Times are in seconds.
type Report struct {
	Entries    EntriesReport    `json:"entries"`
	Messages   MessagesReport   `json:"messages"`
	SyncDelay  Times            `json:"syncDelay"` // from a leave to the next entry, if somebody waited all that time
	Wait       WaitReport       `json:"wait"`      // from a request to its entry, or to the end: see Result.Waits
	Inversions InversionsReport `json:"inversions"`
	Fairness   float64          `json:"fairness"` // Jain's index; 0: no entries, or stopped
	Stopped    float64          `json:"stopped"`  // as Result.Stopped
	Starvation StarvationReport `json:"starvation"`
	Deadlines  DeadlinesReport  `json:"deadlines"`
	Rate       float64          `json:"rate"`    // time inside over measured time
	Waiting    float64          `json:"waiting"` // requests, on average over time
	Overlaps   uint64           `json:"overlaps"`
	Measured   float64          `json:"measured"`
	Events     uint64           `json:"events"`
}

// EntriesReport counts entries.
type EntriesReport struct {
	Total      int            `json:"total"`
	ByNode     []int          `json:"byNode"` // in the order of the participants
	ByPriority map[string]int `json:"byPriority"`
}

// MessagesReport counts messages sent. Total and ByKind are those that the papers
// count; Upkeep is the number of all others: the tree, heartbeats, receipts.
type MessagesReport struct {
	Total    uint64            `json:"total"`
	ByKind   map[string]uint64 `json:"byKind"`
	PerEntry float64           `json:"perEntry"`
	Upkeep   uint64            `json:"upkeep"`
}

// Times sum up a Sample.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// WaitTimes sum up how long requests waited. If some wait at the end, they are
// censored: counted with what they have waited so far.
type WaitTimes struct {
	Times
	Unserved int `json:"unserved"` // how many wait at the end
}

// WaitReport is how long requests waited.
type WaitReport struct {
	WaitTimes
	ByPriority map[string]WaitTimes `json:"byPriority"`
}

// InversionsReport is as Inversions.
type InversionsReport struct {
	Known      uint64 `json:"known"`
	Pending    uint64 `json:"pending"`
	Victims    int    `json:"victims"`
	Overtakers int    `json:"overtakers"`
}

// StarvationReport is as Starvation; Nodes is how many.
type StarvationReport struct {
	Waiting int     `json:"waiting"`
	Longest float64 `json:"longest"`
	Nodes   int     `json:"nodes"`
}

// DeadlinesReport is as Deadlines.
type DeadlinesReport struct {
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`
	Missed   int `json:"missed"`
}

// Report returns r in the form for programs.
func (r *Result) Report() Report {
	p := Report{
		Entries:   EntriesReport{Total: r.Entries, ByNode: make([]int, len(r.ByNode)), ByPriority: map[string]int{}},
		Messages:  MessagesReport{Total: r.Counted, ByKind: map[string]uint64{}, PerEntry: r.PerEntry(), Upkeep: r.Upkeep},
		SyncDelay: times(&r.SyncDelay), Wait: WaitReport{WaitTimes{times(r.Waits()), r.Starvation.Waiting}, map[string]WaitTimes{}},
		Inversions: InversionsReport{
			Known: r.Inversions.Known, Pending: r.Inversions.Pending,
			Victims: r.Inversions.Victims, Overtakers: r.Inversions.Overtakers,
		},
		Fairness: r.Fairness, Stopped: inSeconds(r.Stopped),
		Starvation: StarvationReport{Waiting: r.Starvation.Waiting, Longest: inSeconds(r.Starvation.Longest), Nodes: len(r.Starvation.Nodes)},
		Deadlines:  DeadlinesReport{Admitted: r.Deadlines.Admitted(), Refused: r.Deadlines.Refused, Missed: r.Deadlines.Missed()},
		Rate:       r.Rate(), Waiting: r.AverageWaiting, Overlaps: r.Overlaps, Measured: inSeconds(r.Measured), Events: r.Events,
	}
	for i := range r.ByNode {
		p.Entries.ByNode[i] = r.ByNode[i].Entries
	}
	for i := range r.ByPriority {
		e := &r.ByPriority[i]
		name := strconv.FormatInt(e.Priority, 10)
		p.Entries.ByPriority[name] = e.Entries
		p.Wait.ByPriority[name] = WaitTimes{times(e.Waits()), e.Unserved.Count()}
	}
	for k, n := range r.Sent {
		if kind := protocol.Kind(k); n > 0 && kind.Counted() {
			p.Messages.ByKind[kind.String()] = n
		}
	}
	return p
}

func times(s *Sample) Times {
	return Times{Mean: inSeconds(s.Mean()), P50: inSeconds(s.Quantile(0.5)), P99: inSeconds(s.Quantile(0.99)), Max: inSeconds(s.Quantile(1))}
}

func inSeconds(d protocol.Duration) float64 { return float64(d) / float64(protocol.Second) }
