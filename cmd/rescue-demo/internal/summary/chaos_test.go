package summary_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/summary"
)

// survived is a run that chaos did not break: every kind of fault once.
func survived() ([]chaos.Act, *observer.Journal) {
	var acts []chaos.Act
	for i, k := range chaos.Kinds() {
		acts = append(acts, chaos.Act{At: time.Duration(i) * time.Second, Kind: k, Target: "robot-1"},
			chaos.Act{At: time.Duration(i)*time.Second + time.Second/2, Kind: k, Target: "robot-1", Over: true})
	}
	return acts, observer.NewJournal()
}

func robots(all ...summary.Robot) []summary.Robot { return all }

func TestChaosIsJudged(t *testing.T) {
	served := summary.Robot{Robot: "robot-1", Lives: 1, Alive: true, Airtime: 2, AirtimeInCalm: 1, Contact: 20, Needed: 12}
	starved, shadowed, dead := served, served, served
	starved.AirtimeInCalm, shadowed.AirtimeInCalm, dead.AirtimeInCalm = 0, 0, 0
	shadowed.Contact, dead.Alive = 11, false
	for name, test := range map[string]struct {
		robots  []summary.Robot
		without chaos.Kind
		want    string
	}{
		"all served":                {robots(served, served), "", ""},
		"one not served":            {robots(served, starved), "", "robot-1 lives and had no airtime"},
		"one in a shadow":           {robots(served, shadowed), "", ""},
		"one dead":                  {robots(served, dead), "", ""},
		"no root killed":            {robots(served), chaos.KillRoot, "no fault of kind killRoot"},
		"no broker lost its memory": {robots(served), chaos.WipeBroker, "no fault of kind wipeBroker"},
	} {
		acts, j := survived()
		var happened []chaos.Act
		for _, a := range acts {
			if a.Kind != test.without {
				happened = append(happened, a)
			}
		}
		c := summary.NewChaos(1, happened, j)
		c.Robots = test.robots
		if err := c.Err(); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// What is fed an overlap must count it, and what killed and stopped robots publish
// too late must not pass for one.
func TestJournalsDecideUnderChaos(t *testing.T) {
	run := example(t)
	run.Observed.Overlaps = observer.Overlaps{Intervals: 3, Frames: 2}
	acts, j := survived()
	run.Chaos = summary.NewChaos(1, acts, j)
	if s := summary.Of(run); s.Overlaps != 0 || s.OverlapKinds != (summary.OverlapKinds{}) {
		t.Errorf("%+v", s.OverlapKinds)
	}
	for i, robot := range []string{"robot-1", "robot-2"} {
		for _, s := range []time.Duration{0, time.Second} {
			j.Note(robot, 1, "146.520", uint64(i+1), run.Start.Add(s))
		}
	}
	run.Chaos = summary.NewChaos(1, acts, j)
	if s := summary.Of(run); s.Overlaps != 1 || s.OverlapKinds.Intervals != 1 {
		t.Errorf("%+v with two robots on a frequency", s.OverlapKinds)
	}
}

func TestTextTellsOfChaos(t *testing.T) {
	run := example(t)
	acts, j := survived()
	run.Chaos = summary.NewChaos(7, acts, j)
	run.Chaos.Robots = robots(
		summary.Robot{Robot: "robot-1", Lives: 3, Alive: true, Airtime: 20.5, AirtimeInCalm: 10.25, Contact: 20, Needed: 12},
		summary.Robot{Robot: "robot-200", Lives: 1, Alive: true, Contact: 20, Needed: 12},
		summary.Robot{Robot: "robot-3", Lives: 1, Alive: true, Contact: 2, Needed: 12},
		summary.Robot{Robot: "robot-4", Lives: 1})
	var b strings.Builder
	if err := summary.Of(run).Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{
		"chaos, seed 7", "   2.0 s  robot-1 killed, the root", "started again without its data", "killed: robots 1, roots 1, voters 1, brokers 1, wiped 1; robots stopped 1",
		"robot-1         3              20.50 s               10.25 s\n", "NOT SERVED", "contact 2.0 s", "dead", "overlaps: 0 ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
