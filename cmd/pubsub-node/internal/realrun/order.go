package realrun

import (
	"time"

	"padme/qosmutex"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
)

// order is what a process is told at first: who it is, and what it will ask for.
type order struct {
	URL       string
	ID        string
	Priority  int64
	Lock      string
	First     bool   // creates the topic, or has the root
	Parent    string // "": it looks for one
	Fanout    int
	Timing    qosmutex.Timing
	Models    string
	Resources []string
	Algorithm string   // with a fixed list of members; "": PADME
	Members   []string // all, in their order
	Loop      []asking // one after the other
	Clock     []asking // each at its time
	Lasts     time.Duration
	Delays    map[string][]time.Duration // of messages, by receiver: what to draw from
	Flat      time.Duration              // of messages by which is measured what else they need
}

// asking is a request to be made.
type asking struct {
	After    time.Duration // in a loop: after the end of the one before; else after the start
	Resource string
	Hold     time.Duration
	Priority int64
	Fixed    bool // Priority is not the participant's
	Within   time.Duration
	GiveUp   bool
}

// step is what a process is told to do, from a time on.
type step struct {
	Do string
	At time.Time
}

// What a process can be told to do, in this order.
const (
	open  = "open"
	start = "start"
)

// answer is what a process says when it has joined and after each step.
type answer struct {
	Failed   string         `json:",omitempty"`
	Delays   []Delay        `json:",omitempty"`
	Outcomes []plan.Outcome `json:",omitempty"`
	Lost     int            `json:",omitempty"` // holds, while the application was inside
}

// Delay is how much longer than in the scenario a message took that was sent at a time, from
// the start of the run.
type Delay struct {
	At   protocol.Time
	Took protocol.Duration
}
