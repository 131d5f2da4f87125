// Package summary puts together what a run showed, for people and as JSON.
package summary

import (
	"fmt"
	"time"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
)

// Summary is the result of a run. Times are in seconds; shares are from 0 to 1.
type Summary struct {
	Seed        uint64   `json:"seed"`
	Robots      int      `json:"robots"`
	Frequencies []string `json:"frequencies"`
	Survivors   int      `json:"survivors"`
	Processes   bool     `json:"processes"`
	Broker      string   `json:"broker"`
	Models      string   `json:"models"`
	ModelsAfter string   `json:"modelsAfter"`
	Duration    float64  `json:"duration"`             // as long as it really was
	SwitchedAt  *float64 `json:"switchedAt,omitempty"` // absent: it ended before
	Interrupted bool     `json:"interrupted"`

	Entries int `json:"entries"`
	// Unseen is how many entries the robots reported that the observer did not
	// see: what it says does not cover them.
	Unseen           int              `json:"unseen"`
	Overlaps         int              `json:"overlaps"`
	OverlapKinds     OverlapKinds     `json:"overlapKinds"`
	ByClass          map[string]Class `json:"byClass"`
	Inversions       Inversions       `json:"inversions"`
	Fair             *Fair            `json:"fair,omitempty"` // absent: it was not in force, or faults were made
	Messages         uint64           `json:"messages"`
	MessagesPerEntry float64          `json:"messagesPerEntry"`
	SyncDelay        Delay            `json:"syncDelay"`
	Frames           Frames           `json:"frames"`
	Dropouts         int              `json:"dropouts"`
	Losses           int              `json:"losses"`
	Failures         []string         `json:"failures,omitempty"`
	Chaos            *Chaos           `json:"chaos,omitempty"`
}

// OverlapKinds is how overlaps showed; see observer.Overlaps.
type OverlapKinds struct {
	Intervals int `json:"intervals"`
	Fences    int `json:"fences"`
	Frames    int `json:"frames"`
}

// Inversions counts entries made while a more important request was pending.
type Inversions struct {
	Pending int `json:"pending"`
	Level   int `json:"level"`
	Fair    int `json:"fair"`
}

// Fair is how robots waited under fair; see observer.Fair.
type Fair struct {
	Longest   float64 `json:"longest"` // seconds
	LongestOf string  `json:"longestOf"`
	Overtaken int     `json:"overtaken"`
	Of        string  `json:"overtakenOf"`
	Bound     int     `json:"bound"` // at most so many may; 0: these models promise none
}

// Err says whether somebody was overtaken more often than is promised.
func (f *Fair) Err() error {
	if f == nil || f.Bound == 0 || f.Overtaken <= f.Bound {
		return nil
	}
	return fmt.Errorf("%s was overtaken by %d later requests under fair: at most %d may", f.Of, f.Overtaken, f.Bound)
}

// Delay sums up durations.
type Delay struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Frames counts the pictures.
type Frames struct {
	Sent     int    `json:"sent"`
	Received uint64 `json:"received"`
	Bytes    uint64 `json:"bytes"`
	Bad      uint64 `json:"bad"`
	Refused  uint64 `json:"refused"` // with an old fence
}

// Class is what the robots got which saw so many survivors.
type Class struct {
	Entries int   `json:"entries"`
	Wait    Delay `json:"wait"`
	// InVain is the longest wait without an entry.
	InVain  float64 `json:"inVain"`
	Airtime float64 `json:"airtime"` // in seconds, under either model
	Before  Share   `json:"before"`  // under Level
	After   Share   `json:"after"`   // under Fair
}

// Share is a part of the time before or after the models were changed.
type Share struct {
	Airtime float64 `json:"airtime"` // of all time on the air
	Robots  float64 `json:"robots"`  // of all robots' time: what chance would give
}

// Run is what there is to sum up.
type Run struct {
	Config      scenario.Config
	Broker      string
	World       *world.World
	Start, End  time.Time
	Interrupted bool
	Observed    observer.Report
	Robots      []robot.Report
	Frames      center.Frames
	Messages    uint64  // sent by the center
	Failures    []error // beside those of the robots
	Chaos       *Chaos  // nil: there was none
	// Journal has every hold, where what was observed has not. Nil: it has.
	Journal *observer.Journal
}

// Of sums up a run.
func Of(run Run) Summary {
	o, cfg := run.Observed, run.Config
	s := Summary{
		Seed: cfg.Seed, Robots: cfg.Robots, Frequencies: cfg.FrequencyNames(), Survivors: cfg.Survivors,
		Processes: cfg.Processes, Broker: run.Broker, Interrupted: run.Interrupted,
		Models: cfg.Models.String(), ModelsAfter: cfg.FairModels().String(),
		Duration: run.End.Sub(run.Start).Seconds(),
		Entries:  o.Entries, Losses: o.Losses,
		Overlaps:     o.Overlaps.Total(),
		OverlapKinds: OverlapKinds(o.Overlaps),
		Inversions:   Inversions(o.Inversions),
		Messages:     run.Messages,
		SyncDelay:    delay(o.SyncDelay),
		Frames:       Frames{Received: run.Frames.Received, Bytes: run.Frames.Bytes, Bad: run.Frames.Bad, Refused: run.Frames.Refused},
	}
	if !o.Switched.IsZero() {
		at := o.Switched.Sub(run.Start).Seconds()
		s.SwitchedAt = &at
	}
	entered := 0
	for _, r := range run.Robots {
		entered += r.Entries
		s.Messages += r.Messages
		s.Frames.Sent += r.Frames
		s.Dropouts += r.Dropouts
		if r.Error != "" {
			s.Failures = append(s.Failures, r.Robot+": "+r.Error)
		}
	}
	for _, err := range run.Failures {
		s.Failures = append(s.Failures, err.Error())
	}
	s.Unseen = max(0, entered-o.Entries)
	if o.Entries > 0 {
		s.MessagesPerEntry = float64(s.Messages) / float64(o.Entries)
	}
	s.ByClass = classes(run)
	s.Fair = fair(run)
	if run.Journal != nil {
		s.trust(run.Journal.Overlaps(), run.Journal.Entries())
	}
	if run.Chaos != nil {
		s.judgeBy(run.Chaos)
	}
	return s
}

// fair is nil where robots, root or broker were killed: what was to wait then may have
// been lost.
func fair(run Run) *Fair {
	o := run.Observed.Fair
	if run.Observed.Switched.IsZero() || run.Chaos != nil || run.Journal != nil {
		return nil
	}
	f := &Fair{Longest: o.Longest.Seconds(), LongestOf: o.LongestOf, Overtaken: o.Overtaken, Of: o.OvertakenOf}
	if o.Bounded {
		f.Bound = run.Config.FairBound()
	}
	return f
}

func classes(run Run) map[string]Class {
	var airBefore, airAfter time.Duration
	for _, c := range run.Observed.Classes {
		airBefore += c.AirtimeLevel
		airAfter += c.AirtimeFair
	}
	before, after := presence(run)
	all := map[string]Class{}
	for i, c := range run.Observed.Classes {
		all[scenario.Class(i).String()] = Class{
			Entries: c.Wait.Count, Wait: delay(c.Wait), InVain: c.InVain.Seconds(), Airtime: (c.AirtimeLevel + c.AirtimeFair).Seconds(),
			Before: Share{part(c.AirtimeLevel, airBefore), before[i]},
			After:  Share{part(c.AirtimeFair, airAfter), after[i]},
		}
	}
	return all
}

func part(d, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(d) / float64(of)
}

func delay(d observer.Delay) Delay {
	return Delay{d.Count, d.Mean.Seconds(), d.P50.Seconds(), d.P99.Seconds(), d.Max.Seconds()}
}

// presence returns the part of the robots' time that was spent in each class,
// under level and under fair.
func presence(run Run) (before, after [scenario.Classes]float64) {
	const step = 200 * time.Millisecond
	var samplesBefore, samplesAfter float64
	for number := 1; number <= run.Config.Robots; number++ {
		for t := run.Start; t.Before(run.End); t = t.Add(step) {
			class := scenario.ClassOf(run.World.Sees(number, t.Sub(run.Start)))
			if !run.Observed.FairAt(t) {
				before[class]++
				samplesBefore++
			} else {
				after[class]++
				samplesAfter++
			}
		}
	}
	for i := range before {
		before[i] /= max(1, samplesBefore)
		after[i] /= max(1, samplesAfter)
	}
	return before, after
}
