package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/screen"
	"padme/cmd/rescue-demo/internal/world"

	"golang.org/x/term"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	lineEvery   = 3 * time.Second        // elsewhere
	// judgeEvery bounds the work of judging all that was observed so far.
	judgeEvery = time.Second
)

// display shows the run while it goes on: in place on a terminal, else a line
// every few seconds. The area is computed, as the robots do; what is shown of the
// lock was published.
type display struct {
	cfg      scenario.Config
	start    time.Time
	center   *center.Center
	observer *observer.Observer
	stage    *stage // nil: no chaos
	w        io.Writer
	every    time.Duration

	file     *os.File // of the terminal
	terminal *screen.Terminal
	color    bool

	world  *world.World
	crew   *crew
	judged time.Time
	seen   observer.Progress
}

func newDisplay(cfg scenario.Config, start time.Time, c *center.Center, o *observer.Observer, st *stage, world *world.World, crew *crew, w io.Writer) *display {
	d := &display{cfg: cfg, start: start, center: c, observer: o, stage: st, w: w, every: lineEvery, world: world, crew: crew}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		d.file, d.every = f, redrawEvery
		d.terminal = screen.NewTerminal(f)
		d.color = os.Getenv("NO_COLOR") == ""
	}
	return d
}

// follow shows the run until it is over.
func (d *display) follow(over <-chan struct{}) {
	redraw := time.NewTicker(d.every)
	defer redraw.Stop()
	for {
		select {
		case <-redraw.C:
			d.show()
		case <-over:
			return
		}
	}
}

func (d *display) show() {
	scene := d.scene(time.Now())
	if d.terminal == nil {
		fmt.Fprintln(d.w, screen.Line(scene))
		return
	}
	columns, rows, err := term.GetSize(int(d.file.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	d.terminal.Show(screen.Draw(scene, columns, rows, d.color))
}

func (d *display) close() {
	if d.terminal != nil {
		d.terminal.Close()
	}
}

func (d *display) scene(now time.Time) screen.Scene {
	if now.Sub(d.judged) >= judgeEvery {
		d.judged, d.seen = now, d.observer.Progress()
	}
	frames := d.center.Frames()
	s := screen.Scene{
		Area: d.world.Area(), Elapsed: min(now.Sub(d.start), d.cfg.Duration), Duration: d.cfg.Duration, SwitchAt: d.cfg.SwitchAt,
		Models: d.cfg.Models.String(), Frames: frames.Received, FrameBytes: frames.Bytes,
		Entries: d.seen.Entries, Overlaps: d.seen.Overlaps.Total(),
	}
	if d.stage != nil {
		// Published events do not tell when killed and stopped robots left.
		s.Overlaps = d.stage.journal.Overlaps().Total()
		if acts := d.stage.director.Acts(); len(acts) > 0 {
			s.Faults, s.LastAct = chaos.Total(acts), acts[len(acts)-1].String()
		}
	}
	if models := d.observer.InForce(); models != "" { // of whoever switches, also on the page
		s.Models = models
	}
	holds := map[string]string{}
	for _, f := range d.observer.States() {
		s.Frequencies = append(s.Frequencies, screen.Frequency{
			Name: f.Resource, Status: f.Status, Holder: f.Holder, Since: max(0, now.Sub(f.Since)), Waiting: f.Waiting,
		})
		holds[f.Holder] = f.Resource
	}
	s.Robots = d.robots(now, holds)
	return s
}

func (d *display) robots(now time.Time, holds map[string]string) []screen.Robot {
	waiting := d.observer.Waiting()
	robots := make([]screen.Robot, 0, d.cfg.Robots)
	for number := 1; number <= d.cfg.Robots; number++ {
		r := screen.Robot{At: d.world.Place(number, now.Sub(d.start))}
		name, area := scenario.RobotName(number), d.world.Area()
		r.Survivors, r.Shadow, r.On = len(area.Seen(r.At)), area.Shadowed(r.At) || d.world.Failed(number), holds[name]
		r.Paused = d.world.Paused(number)
		_, r.Dead = d.crew.robots[number-1].lives()
		if w, ok := waiting[name]; ok && r.On == "" {
			r.Waits = max(time.Millisecond, now.Sub(w.Since))
		}
		robots = append(robots, r)
	}
	return robots
}
