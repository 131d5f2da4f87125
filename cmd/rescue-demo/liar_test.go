package main

import (
	"context"
	"os"
	"time"

	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
)

// asLiar makes robots' processes claim a frequency that they do not hold.
const asLiar = "RESCUE_DEMO_AS_LIAR"

// lie is a robot's process which notes a hold that nobody granted.
func lie() {
	c := partCommand(os.Stdin, robotName, func(ctx context.Context, cfg robot.Config, _ <-chan world.Change, say func(any)) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			say(said{Sighting: &robot.Sighting{Frequency: "146.520", Fence: uint64(cfg.Number), At: <-tick.C}})
		}
		say(said{Report: &robot.Report{Robot: scenario.RobotName(cfg.Number)}})
		return nil
	})
	c.SetArgs([]string{})
	if c.ExecuteContext(context.Background()) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
