package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"

	"github.com/spf13/cobra"
)

// robotName is the hidden sub-command that a process of a robot runs.
const robotName = "robot"

// patience is how long a robot's process may take to end when it is told to.
const patience = 10 * time.Second

// runProcess is robot.Run in a process of its own. The process is told its
// configuration on standard input, ends when that is closed, and reports on
// standard output.
func runProcess(ctx context.Context, cfg robot.Config) (robot.Report, error) {
	name := scenario.RobotName(cfg.Number)
	fail := func(err error) (robot.Report, error) {
		return robot.Report{Robot: name, Error: err.Error()}, fmt.Errorf("%s: %w", name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(ctx, self, robotName)
	var report, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, &complaint
	cmd.SysProcAttr = dieWithParent()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	// What is wrong with writing shows in how the process ends.
	_ = json.NewEncoder(stdin).Encode(cfg)
	err = cmd.Wait()
	var told robot.Report
	if json.Unmarshal(report.Bytes(), &told) == nil {
		return told, nil
	}
	return fail(errors.Join(err, errors.New("its process ended without a report: "+strings.TrimSpace(complaint.String()))))
}

// robotCommand is the other end of runProcess.
func robotCommand(stdin io.Reader) *cobra.Command {
	return &cobra.Command{
		Use:    robotName,
		Short:  "Run one robot, as told on standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C reaches the whole process group; it is for the parent to say
			// when to end.
			signal.Ignore(os.Interrupt)
			var cfg robot.Config
			decoder := json.NewDecoder(stdin)
			if err := decoder.Decode(&cfg); err != nil {
				return fmt.Errorf("no configuration on standard input, which is how --processes starts it: %w", err)
			}
			if err := cfg.Scenario.Validate(); err != nil {
				return fmt.Errorf("robot: %w", err)
			}
			ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, stdin)
				cancel()
			}()
			report, _ := robot.Run(ctx, cfg) // the report repeats the error
			return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
		},
	}
}
