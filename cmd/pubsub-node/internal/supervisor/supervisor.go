package supervisor

import (
	"errors"
	"time"
)

// Command is what a supervisor starts, and how that ends when the holder is gone.
type Command struct {
	Path string // of the program
	Argv []string
	Env  []string

	HangUp    bool          // it gets HUP after TERM, which interactive shells ignore
	KillAfter time.Duration // what is left then gets KILL
}

// Terminal is the terminal of the holder, which the command gets while it runs.
type Terminal interface {
	// Foreground returns the terminal's descriptor, -1 if the holder is not in its foreground.
	Foreground() int
	// Suspend stops the holder because the command's process group was stopped, and continues
	// that group when the holder is continued.
	Suspend(group int)
	// Reclaim takes the terminal back if group has it.
	Reclaim(group int)
}

// ErrKilled says that the command, or what it had started, did not end in time.
var ErrKilled = errors.New("it did not end on TERM and was killed")

// ErrDied says that the supervisor ended before the command did.
var ErrDied = errors.New("the supervisor of the command was killed, so the command was ended")
