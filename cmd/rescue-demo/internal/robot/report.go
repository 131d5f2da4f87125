package robot

import "time"

// Sighting is a note of a robot: at this time, or later, its hold was valid.
type Sighting struct {
	Frequency string
	Fence     uint64
	At        time.Time
}

// Report is what a robot did, told at the end of the run.
type Report struct {
	Robot    string
	Entries  int    // frequencies it got
	Losses   int    // of them, how many it lost
	Dropouts int    // times it was cut off by an obstacle
	Frames   int    // frames it sent
	Messages uint64 // lock messages it sent, of the kinds that the papers count
	Error    string `json:",omitempty"` // why it gave up before the end
}

// Add takes in the report of a later life. Its error, or the want of one, replaces
// what went wrong before.
func (r *Report) Add(later Report) {
	r.Entries += later.Entries
	r.Losses += later.Losses
	r.Dropouts += later.Dropouts
	r.Frames += later.Frames
	r.Messages += later.Messages
	r.Error = later.Error
}
