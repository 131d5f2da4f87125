package main

import (
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

// topicLimitFlags bound the locks that a server opens because somebody names them.
type topicLimitFlags struct {
	total, perUser int
	idle           time.Duration

	given func() bool // whether one of them was
}

func (f *topicLimitFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.given = func() bool {
		return fs.Changed("max-topics") || fs.Changed("max-topics-per-user") || fs.Changed("idle-topics")
	}
	fs.IntVar(&f.total, "max-topics", 1024, "`number` of locks that are open at a time; one with a TTL n times shorter than --ttl counts n times")
	fs.IntVar(&f.perUser, "max-topics-per-user", 512, "`number` of those that one user can have had opened by naming them; half of both for clients that speak JSON")
	flags.DurationVar(fs, &f.idle, "idle-topics", "", 10*time.Minute, "how long nobody must have used a lock, until it is given up; declared ones stay, and fences go on")
}

// option is what the flags say, and of how many locks there are metrics under their names.
func (f *topicLimitFlags) option(named int) (qosmutex.Option, error) {
	switch {
	case f.total < 1 || f.perUser < 1:
		return nil, usageError("--max-topics %d, --max-topics-per-user %d: give at least 1", f.total, f.perUser)
	case f.total < 2:
		return nil, usageError("--max-topics %d: give at least 2, as the lock %q of gateways among themselves is one", f.total, gateway.RoleTopic)
	case f.idle < time.Second:
		return nil, usageError("--idle-topics %v: give at least 1s", f.idle)
	}
	return qosmutex.WithTopicLimits(qosmutex.TopicLimits{Total: f.total, PerUser: f.perUser, Idle: f.idle, Named: named}), nil
}
