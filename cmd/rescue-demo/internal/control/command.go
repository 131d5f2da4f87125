// Package control lets whoever looks at a run interfere with it: over MQTT, by
// commands that carry a proof that their sender knows the run's key.
//
// The key protects a command from end to end, so the broker need not tell its users
// apart: the locks stay open to any client, and any of them may read the commands
// and answers and send what it likes. A sealed command is a [Sealed] in JSON on the
// raw topic control/request. It is answered by an [Answer] on control/answer.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

// Action is what a command asks for.
type Action string

// The actions. Those from Pause to Start are done to a robot.
const (
	Pause      Action = "pause"
	Resume     Action = "resume"
	Cut        Action = "cut"  // its radio fails
	Mend       Action = "mend" // and works again
	Kill       Action = "kill"
	Start      Action = "start"      // it lives again after Kill
	Drop       Action = "drop"       // one more survivor, at X and Y
	Models     Action = "models"     // Model, one of the four, becomes To if it is From
	KillRoot   Action = "killRoot"   // whoever is the root of the lock dies
	StopBroker Action = "stopBroker" // it comes back after a while
)

// Command is one wish of an operator.
type Command struct {
	ID    string  `json:"id"` // of 8 to 64 bytes, another one for each command
	At    int64   `json:"at"` // when it was given, milliseconds since 1970
	Do    Action  `json:"do"`
	Robot string  `json:"robot,omitempty"`
	X     float64 `json:"x,omitempty"` // yards
	Y     float64 `json:"y,omitempty"`
	Model string  `json:"model,omitempty"` // priority, request, reply or release
	From  string  `json:"from,omitempty"`
	To    string  `json:"to,omitempty"`

	number int
}

// Number returns the number of the robot, from 1.
func (c Command) Number() int { return c.number }

// Place returns where a survivor is dropped.
func (c Command) Place() area.Point { return area.Point{X: c.X, Y: c.Y} }

// values are what each model can be here, in the order in which they are written. Of the
// Priority models these are only the two that the demo compares.
var values = func() []modelValues {
	names := protocol.ModelNames()
	return []modelValues{
		{"priority", names[0][:protocol.Fair+1]},
		{"request", names[1]},
		{"reply", names[2]},
		{"release", names[3]},
	}
}()

type modelValues struct {
	model string
	all   []string
}

// Changed returns models with the one that is asked for changed. It refuses if that is
// not From: somebody else has changed it since the sender has looked.
func (c Command) Changed(models qosmutex.Models) (qosmutex.Models, error) {
	words := strings.Split(models.String(), "-")
	for i, v := range values {
		if v.model != c.Model {
			continue
		}
		if words[i] != c.From {
			return models, fmt.Errorf("the %s model is %s by now, not %s", c.Model, words[i], c.From)
		}
		words[i] = c.To
	}
	return qosmutex.ParseModels(strings.Join(words, "-"))
}

func (c Command) checkModel() error {
	for _, v := range values {
		if v.model == c.Model {
			for _, word := range []string{c.From, c.To} {
				if !slices.Contains(v.all, word) {
					return fmt.Errorf("the %s model is %s here, not %q", v.model, strings.Join(v.all, " or "), word)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("there is no model %q: give priority, request, reply or release", c.Model)
}

// parse reads a command and reports what is wrong with it in this run.
func parse(text string, cfg *scenario.Config) (Command, error) {
	var c Command
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("no command: %w", err)
	}
	if d.More() {
		return c, errors.New("no command: something follows it")
	}
	if len(c.ID) < 8 || len(c.ID) > 64 {
		return c, errors.New("the id of a command has 8 to 64 bytes")
	}
	return c, c.check(cfg)
}

func (c *Command) check(cfg *scenario.Config) (err error) {
	switch c.Do {
	case Pause, Resume, Cut, Mend, Kill, Start:
		c.number, err = robotNumber(c.Robot, cfg.Robots)
	case Drop:
		if !(0 <= c.X && c.X <= cfg.Width && 0 <= c.Y && c.Y <= cfg.Height) || math.IsNaN(c.X+c.Y) {
			err = fmt.Errorf("%v, %v is outside of the area of %v by %v yards", c.X, c.Y, cfg.Width, cfg.Height)
		}
	case Models:
		err = c.checkModel()
	case KillRoot, StopBroker:
	default:
		err = fmt.Errorf("%q is nothing that can be done", c.Do)
	}
	return err
}

func robotNumber(name string, robots int) (int, error) {
	digits, ok := strings.CutPrefix(name, "robot-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > robots || scenario.RobotName(n) != name {
		return 0, fmt.Errorf("there is no robot %q: give robot-1 to robot-%d", name, robots)
	}
	return n, nil
}
