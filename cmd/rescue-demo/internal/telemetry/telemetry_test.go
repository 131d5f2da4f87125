package telemetry

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
	"padme/pubsub"
)

// unpublished is telemetry of a run that nobody watches.
func unpublished(t *testing.T) *Telemetry {
	t.Helper()
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &Telemetry{
		src:   Source{Config: cfg, Start: time.Now(), World: world.New(cfg), Messages: func() uint64 { return 100 }},
		found: map[int]bool{}, counts: map[string]robot.Count{},
	}
}

func count(t *testing.T, tele *Telemetry, name string, c robot.Count) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	tele.counted(pubsub.RawMessage{Levels: robot.CountTopic(name), Payload: text})
}

func TestMessagesOfAllLivesAreCounted(t *testing.T) {
	tele := unpublished(t)
	count(t, tele, "robot-1", robot.Count{Incarnation: 1, Messages: 5})
	count(t, tele, "robot-1", robot.Count{Incarnation: 1, Messages: 7})
	count(t, tele, "robot-2", robot.Count{Incarnation: 1, Messages: 20})
	count(t, tele, "robot-1", robot.Count{Incarnation: 2, Messages: 1})
	tele.counted(pubsub.RawMessage{Levels: robot.CountTopic("robot-1"), Payload: []byte("{")})
	if n := tele.messages(); n != 100+7+1+20 {
		t.Errorf("%d messages, want 128", n)
	}
	for i := range 1000 { // anybody may invent robots
		count(t, tele, fmt.Sprintf("ghost-%d", i), robot.Count{Messages: 1})
	}
	if len(tele.counts) > 2*tele.src.Config.Robots {
		t.Errorf("%d robots are counted", len(tele.counts))
	}
}

// A survivor is found by a picture that shows it, and stays so.
func TestSurvivorsOnAPictureAreFound(t *testing.T) {
	tele := unpublished(t)
	const at = 5 * time.Second
	place := tele.src.World.Place(3, at)
	tele.src.World.Apply(world.Change{At: at, Kind: world.Drop, Place: place})
	number := len(tele.src.World.Area().Survivors) - 1
	for _, nobody := range []string{"robot-99", "center", ""} {
		tele.pictured(nobody, tele.src.Start.Add(at))
	}
	if len(tele.found) != 0 {
		t.Fatalf("found %v", tele.found)
	}
	tele.pictured("robot-3", tele.src.Start.Add(at))
	for i, s := range tele.survivors() {
		if i == number && !s.Found {
			t.Error("a survivor below the robot is not found")
		}
		if d := place.Distance(tele.src.World.Area().Survivors[i]); s.Found && d > 50 {
			t.Errorf("found one %v yards away", d)
		}
	}
	tele.pictured("robot-3", tele.src.Start.Add(time.Minute))
	if !tele.survivors()[number].Found {
		t.Error("it is lost again")
	}
}

func TestSharesAddUp(t *testing.T) {
	tele := unpublished(t)
	tele.attend([]Robot{{Sees: 0}, {Sees: 0}, {Sees: 1}, {Sees: 7}})
	tele.fair = true
	tele.attend([]Robot{{Sees: 2}})
	var r observer.Report
	r.Classes[0].AirtimeLevel, r.Classes[3].AirtimeLevel, r.Classes[2].AirtimeFair = time.Second, 3*time.Second, time.Second
	c := tele.classes(r)
	if len(c) != 4 || c[0].Level != 0.25 || c[3].Level != 0.75 || c[2].Fair != 1 || c[0].RobotsLevel != 0.5 || c[3].RobotsLevel != 0.25 || c[2].RobotsFair != 1 || c[3].Name != "3+" {
		t.Errorf("%+v", c)
	}
	for _, none := range unpublished(t).classes(observer.Report{}) {
		if none.Level != 0 || none.RobotsFair != 0 {
			t.Errorf("of nothing: %+v", none)
		}
	}
}
