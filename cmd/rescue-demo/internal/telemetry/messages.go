package telemetry

import (
	"math"
	"strconv"
	"time"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
)

// Scene is what stays the same for a run, but for Over.
type Scene struct {
	Start       int64        `json:"start"`
	Duration    float64      `json:"duration"`
	SwitchAt    float64      `json:"switchAt"` // after the start, to fair
	Width       float64      `json:"width"`
	Height      float64      `json:"height"`
	Sight       float64      `json:"sight"`
	Center      [2]float64   `json:"center"`
	Ruins       [][4]float64 `json:"ruins"` // west, south, east, north
	Frequencies []string     `json:"frequencies"`
	Robots      int          `json:"robots"`
	Processes   bool         `json:"processes"`
	Chaos       bool         `json:"chaos"`
	Over        bool         `json:"over"` // the run has ended
}

// Survivor is one survivor. It was found once a picture of it has arrived.
type Survivor struct {
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Found bool    `json:"found"`
}

// Robots is where everybody is.
type Robots struct {
	At     int64   `json:"at"`
	Robots []Robot `json:"robots"`
}

// Robot is one robot.
type Robot struct {
	Name     string  `json:"name"`
	Number   int     `json:"number"`
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
	Sees     int     `json:"sees"` // survivors
	Priority int64   `json:"priority"`
	Shadow   bool    `json:"shadow,omitempty"` // a ruin is in the way of its radio
	Cut      bool    `json:"cut,omitempty"`    // its radio was cut
	Paused   bool    `json:"paused,omitempty"`
	Dead     bool    `json:"dead,omitempty"`
	Life     int     `json:"life"` // from 1
}

// Stay is the time that a robot had a frequency.
type Stay struct {
	Frequency string `json:"frequency"`
	Robot     string `json:"robot"`
	Priority  int64  `json:"priority"` // of the request
	Fence     string `json:"fence"`
	From      int64  `json:"from"`
	To        int64  `json:"to,omitempty"` // absent: it has it still
	Lost      bool   `json:"lost,omitempty"`
}

// Figures sums up the run so far.
type Figures struct {
	Entries          int     `json:"entries"`
	Losses           int     `json:"losses"`
	Overlaps         int     `json:"overlaps"`
	InversionsLevel  int     `json:"inversionsLevel"` // while level was in force
	InversionsFair   int     `json:"inversionsFair"`
	FairWait         float64 `json:"fairWait"`       // the longest one under fair so far
	Overtaken        int     `json:"overtaken"`      // under fair, one request by so many later ones
	OvertakenBound   int     `json:"overtakenBound"` // at most so many may; 0: nothing is promised
	MessagesPerEntry float64 `json:"messagesPerEntry"`
	SyncDelay        float64 `json:"syncDelay"` // mean
	SyncDelayP50     float64 `json:"syncDelayP50"`
	SyncDelayP99     float64 `json:"syncDelayP99"`
	Frames           int     `json:"frames"`
	Switched         int64   `json:"switched,omitempty"` // when fair came into force for the first time
	Phases           []Phase `json:"phases"`             // in order
	Act              string  `json:"act,omitempty"`      // the last one of chaos
	Classes          []Class `json:"classes"`
}

// Phase is a time under one priority model; the next one ends it.
type Phase struct {
	From int64 `json:"from"`
	Fair bool  `json:"fair"` // or level
}

// Class is what the robots got which saw so many survivors. Shares are from 0 to 1:
// of the time on the air, and of all robots' time, which is what chance would give.
type Class struct {
	Name        string  `json:"name"`
	Entries     int     `json:"entries"`
	Wait        float64 `json:"wait"` // mean
	WaitP50     float64 `json:"waitP50"`
	WaitP99     float64 `json:"waitP99"`
	WaitMax     float64 `json:"waitMax"`
	InVain      float64 `json:"inVain"`  // the longest wait without an entry, so far or until it was withdrawn
	Airtime     float64 `json:"airtime"` // under either model
	Level       float64 `json:"level"`   // under level
	RobotsLevel float64 `json:"robotsLevel"`
	Fair        float64 `json:"fair"` // under fair
	RobotsFair  float64 `json:"robotsFair"`
}

// Verdict is what others than the observer know better.
type Verdict struct {
	Overlaps int
	Act      string // the last one of chaos, if any
	Faults   bool   // robots, root or broker were killed
}

func (t *Telemetry) publishRobots(now time.Time) {
	at := now.Sub(t.src.Start)
	all := Robots{At: now.UnixMilli()}
	for number := 1; number <= t.src.Config.Robots; number++ {
		p, sees := t.src.World.Place(number, at), t.src.World.Sees(number, at)
		life, dead := t.src.Life(number)
		all.Robots = append(all.Robots, Robot{
			Name: scenario.RobotName(number), Number: number, X: round(p.X), Y: round(p.Y), Sees: sees,
			Priority: scenario.Priority(sees), Shadow: t.src.World.Area().Shadowed(p), Cut: t.src.World.Failed(number),
			Paused: t.src.World.Paused(number), Dead: dead, Life: life,
		})
	}
	t.publish("robots", all)
	t.attend(all.Robots)
}

// attend notes of which class the robots are, under level or fair.
func (t *Telemetry) attend(robots []Robot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	model := 0
	if t.fair {
		model = 1
	}
	for _, r := range robots {
		t.present[model][scenario.ClassOf(r.Sees)]++
	}
}

func (t *Telemetry) publishRest(now time.Time, over bool) {
	t.publish("scene", t.scene(over))
	t.publish("survivors", t.survivors())
	t.publish("stays", t.stays())
	t.publish("figures", t.figures(now))
}

func (t *Telemetry) scene(over bool) Scene {
	cfg, a := t.src.Config, t.src.World.Area()
	s := Scene{
		Start: t.src.Start.UnixMilli(), Duration: cfg.Duration.Seconds(), SwitchAt: cfg.SwitchAt.Seconds(),
		Width: a.Width, Height: a.Height, Sight: area.Sight, Center: [2]float64{a.Center.X, a.Center.Y},
		Frequencies: cfg.FrequencyNames(), Robots: cfg.Robots, Processes: cfg.Processes, Chaos: cfg.Chaos, Over: over,
	}
	for _, r := range a.Obstacles {
		s.Ruins = append(s.Ruins, [4]float64{round(r.Min.X), round(r.Min.Y), round(r.Max.X), round(r.Max.Y)})
	}
	return s
}

func (t *Telemetry) survivors() []Survivor {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []Survivor{}
	for i, s := range t.src.World.Area().Survivors {
		all = append(all, Survivor{round(s.X), round(s.Y), t.found[i]})
	}
	return all
}

func (t *Telemetry) stays() []Stay {
	all := []Stay{}
	for _, s := range t.src.Observer.Stays(maxStays) {
		stay := Stay{
			Frequency: s.Frequency, Robot: s.Participant, Priority: s.Priority, Fence: strconv.FormatUint(s.Fence, 10),
			From: s.From.UnixMilli(), Lost: s.Lost,
		}
		if !s.To.IsZero() {
			stay.To = s.To.UnixMilli()
		}
		all = append(all, stay)
	}
	return all
}

func (t *Telemetry) figures(now time.Time) Figures {
	r, v := t.src.Judge(now)
	f := Figures{
		Entries: r.Entries, Losses: r.Losses, Overlaps: v.Overlaps, Act: v.Act, Frames: r.Frames,
		InversionsLevel: r.Inversions.Level, InversionsFair: r.Inversions.Fair,
		FairWait: r.Fair.Longest.Seconds(), Overtaken: r.Fair.Overtaken,
		SyncDelay: r.SyncDelay.Mean.Seconds(), SyncDelayP50: r.SyncDelay.P50.Seconds(), SyncDelayP99: r.SyncDelay.P99.Seconds(),
	}
	if r.Fair.Bounded && !v.Faults {
		f.OvertakenBound = t.src.Config.FairBound()
	}
	if r.Entries > 0 {
		f.MessagesPerEntry = float64(t.messages()) / float64(r.Entries)
	}
	if !r.Switched.IsZero() {
		f.Switched = r.Switched.UnixMilli()
	}
	for _, p := range r.Phases {
		f.Phases = append(f.Phases, Phase{p.From.UnixMilli(), p.Fair})
	}
	t.mu.Lock()
	t.fair = r.FairAt(now)
	t.mu.Unlock()
	f.Classes = t.classes(r)
	return f
}

func (t *Telemetry) classes(r observer.Report) []Class {
	var air [2]time.Duration
	for _, c := range r.Classes {
		air[0] += c.AirtimeLevel
		air[1] += c.AirtimeFair
	}
	t.mu.Lock()
	present := t.present
	t.mu.Unlock()
	var robots [2]float64
	for i := range present {
		for _, n := range present[i] {
			robots[i] += n
		}
	}
	all := make([]Class, 0, len(r.Classes))
	for i, c := range r.Classes {
		all = append(all, Class{
			Name: scenario.Class(i).String(), Entries: c.Wait.Count, Wait: c.Wait.Mean.Seconds(),
			WaitP50: c.Wait.P50.Seconds(), WaitP99: c.Wait.P99.Seconds(), WaitMax: c.Wait.Max.Seconds(), InVain: c.InVain.Seconds(),
			Airtime: (c.AirtimeLevel + c.AirtimeFair).Seconds(),
			Level:   part(float64(c.AirtimeLevel), float64(air[0])), RobotsLevel: part(present[0][i], robots[0]),
			Fair: part(float64(c.AirtimeFair), float64(air[1])), RobotsFair: part(present[1][i], robots[1]),
		})
	}
	return all
}

func part(of, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return of / all
}

// round to tenths of a yard, which nobody can see.
func round(yards float64) float64 { return math.Round(yards*10) / 10 }
