package sim

import (
	"io"
	"strconv"

	"padme/qosmutex/protocol"
)

// Event says what a Record is about.
type Event uint8

// Events of a trace.
const (
	Sent          Event = iota // a message leaves Node for Peer ("": everybody)
	Delivered                  // a message from Peer reaches Node
	Lost                       // a message from Node to Peer is lost
	Duplicated                 // a message from Node to Peer will come twice
	Rejected                   // the machine of Node refused a message from Peer; Note says why
	Requested                  // the application asks for Resource
	Entered                    // it is inside; Kind is the message that let it in, if one did
	Left                       // it leaves
	Withdrawn                  // it no longer waits
	Denied                     // it is refused; Note says why
	HoldLost                   // its hold is over although it did not leave
	Reprioritized              // its priority changes
	SettingsAsked              // it asks for other models or resources; Note names them
	Crashed                    // Node stops for ever, with its application
	Restarted                  // Node starts as a new incarnation
	Paused                     // Node gets nothing from now on
	Resumed                    // and goes on
	Cut                        // Node has no network
	Reconnected                // and has it again
	Departed                   // Node was asked to leave the topic
	Partitioned                // the network is split; Note names the groups
	Severed                    // the network is split in one direction; Note says which
	Healed                     // and is whole again
	Suspected                  // the transport of Node believes that Peer has ended; Note names its incarnation
	Drifted                    // the clock of Node runs at another speed; Note says at which
	Stalled                    // Node keeps its connection, but nothing gets through; Note says until when
	Recorded                   // the register has a record that says something new; Note says what
	Forgot                     // the register has forgotten renewals
	Closed                     // the register answers nobody
	Opened                     // and answers again
	Away                       // Node does not reach the register
	Back                       // and reaches it again
	eventEnd
)

var eventWords = [eventEnd]string{
	"", "", "lost", "duplicated", "rejects", "requests", "enters", "leaves", "withdraws", "is denied", "loses",
	"has priority", "asks for", "crashes", "restarts", "pauses", "resumes", "is cut off", "reconnects", "departs",
	"is split", "is severed", "is whole", "suspects", "drifts",
	"stalls", "has", "forgets", "is closed", "is open", "does not reach the register", "reaches the register",
}

// Record is one thing that happened. Which fields are set follows from Event,
// and for messages from Kind.
type Record struct {
	At       protocol.Time
	Event    Event
	Node     string // who did it, or to whom it happened
	Peer     string // the other end of a message
	Kind     protocol.Kind
	Flags    protocol.Flags
	ID       protocol.RequestID
	Priority int64
	Resource string
	Fence    uint64 // of an entry; of a Reply or Release, the next to hand out
	Grant    protocol.Grant
	Entries  []protocol.Entry // of a Release
	Note     string
}

// String is one line without a line end, such as
// "12.500s D→B Request ⟨D,p2,c1⟩ crane".
func (r *Record) String() string { return string(r.Append(nil)) }

// Append appends the line that String returns.
func (r *Record) Append(b []byte) []byte {
	b = appendSeconds(b, r.At)
	b = append(b, ' ')
	b = append(b, r.Node...)
	switch r.Event {
	case Sent, Lost, Duplicated:
		b = append(append(b, "→"...), orAll(r.Peer)...)
		b = r.appendMessage(b)
	case Delivered:
		b = append(append(b, "←"...), r.Peer...)
		b = r.appendMessage(b)
	}
	if word := eventWords[r.Event]; word != "" {
		b = append(append(b, ' '), word...)
	}
	switch r.Event {
	case Rejected:
		b = append(append(append(append(b, ' '), r.Kind.String()...), " from "...), r.Peer...)
	case Reprioritized:
		b = strconv.AppendInt(append(b, ' '), r.Priority, 10)
	case Suspected:
		b = append(append(b, ' '), r.Peer...)
	case Requested, Entered, Left, Withdrawn, Denied, HoldLost:
		b = append(append(b, ' '), r.Resource...)
	}
	switch r.Event {
	case Requested:
		b = strconv.AppendInt(append(b, " p"...), r.Priority, 10)
	case Entered:
		b = append(b, " by "...)
		if r.Kind == protocol.KindNone {
			b = append(b, "itself"...)
		} else {
			b = append(b, r.Kind.String()...)
		}
	}
	if !r.ID.IsZero() && r.Kind != protocol.KindRequest && r.Event >= Requested {
		b = appendID(append(b, " ⟨"...), r.ID)
		b = append(b, "⟩"...)
	}
	if r.Fence != 0 && r.Event >= Requested {
		b = strconv.AppendUint(append(b, " fence "...), r.Fence, 10)
	}
	if r.Note != "" {
		b = append(append(b, ": "...), r.Note...)
	}
	return b
}

// appendMessage writes the kind and what the papers' messages carry.
func (r *Record) appendMessage(b []byte) []byte {
	b = append(append(b, ' '), r.Kind.String()...)
	if !r.ID.IsZero() {
		b = append(b, " ⟨"...)
		b = append(b, r.ID.Node.ID...)
		if r.Kind == protocol.KindRequest {
			b = strconv.AppendInt(append(b, ",p"...), r.Priority, 10)
		}
		b = strconv.AppendUint(append(b, ",c"...), r.ID.Clock, 10)
		for _, e := range r.Entries {
			b = appendID(append(b, "; "...), e.ID)
		}
		b = append(b, "⟩"...)
	}
	if r.Resource != "" {
		b = append(append(b, ' '), r.Resource...)
	}
	if r.Fence != 0 {
		b = strconv.AppendUint(append(b, " fence "...), r.Fence, 10)
	}
	if r.Flags&protocol.FlagReturned != 0 {
		b = append(b, " returned"...)
	}
	return b
}

func appendID(b []byte, id protocol.RequestID) []byte {
	b = append(b, id.Node.ID...)
	return strconv.AppendUint(append(b, ",c"...), id.Clock, 10)
}

func orAll(id string) string {
	if id == "" {
		return "all"
	}
	return id
}

func seconds(t protocol.Time) string { return string(appendSeconds(nil, t)) }

func appendSeconds(b []byte, t protocol.Time) []byte {
	if t == protocol.Never {
		return append(b, "never"...)
	}
	return append(strconv.AppendFloat(b, float64(t)/float64(protocol.Second), 'f', 3, 64), 's')
}

// TraceTo returns a Scenario.Trace that writes one line per Record for which keep
// is true (nil: all) to w. Errors of w are ignored.
func TraceTo(w io.Writer, keep func(*Record) bool) func(*Record) {
	var line []byte
	return func(r *Record) {
		if keep == nil || keep(r) {
			line = append(r.Append(line[:0]), '\n')
			_, _ = w.Write(line)
		}
	}
}

// Papers keeps what the papers' figures show: counted messages as they are sent,
// requests, entries and leaves.
func Papers(r *Record) bool {
	switch r.Event {
	case Sent:
		return r.Kind.Counted()
	case Entered, Left, Requested, Withdrawn, Denied, HoldLost:
		return true
	}
	return false
}

const historyLength = 80

// history is a ring of the last Records, with Entries of their own.
type history struct {
	ring [historyLength]Record
	n    uint64
}

// add appends r and returns the place where it is kept.
func (h *history) add(r *Record) *Record {
	at := &h.ring[h.n%historyLength]
	h.n++
	entries := append(at.Entries[:0], r.Entries...)
	*at = *r
	at.Entries = entries
	return at
}

func (h *history) list() []Record {
	var all []Record
	for i := h.n - min(h.n, historyLength); i < h.n; i++ {
		all = append(all, h.ring[i%historyLength])
	}
	return all
}

// note records r at the present instant.
func (s *Sim) note(r *Record) {
	if s.quiet {
		return
	}
	r.At = s.now
	at := s.history.add(r)
	if s.scenario.Trace != nil {
		s.scenario.Trace(at)
	}
}

// noteMessage records what happens to a message from one participant to another,
// or to all ("").
func (s *Sim) noteMessage(e Event, from int32, to string, m *protocol.Message) {
	if s.quiet {
		return
	}
	r := Record{
		Event: e, Node: s.nodes[from].ID, Peer: to, Kind: m.Kind, Flags: m.Flags, ID: m.ID, Priority: m.Priority,
		Resource: m.Resource, Fence: m.Fences.Next, Grant: m.Grant, Entries: m.Entries,
	}
	if e == Delivered {
		r.Node, r.Peer = r.Peer, r.Node
	}
	s.note(&r)
}
