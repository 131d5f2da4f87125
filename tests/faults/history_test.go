//go:build linux

package faults

import (
	"bytes"
	"fmt"
	"os"
)

// What a worker writes down, each with the time at which it was so.
const (
	called   = "call"    // about to ask for a resource
	got      = "got"     // inside, after Lock returned
	stays    = "stays"   // inside, until told to go on
	valid    = "valid"   // the clock was read before a Check that passed
	ended    = "end"     // after an Unlock that found the hold valid
	lost     = "lost"    // after a Check or an Unlock that did not
	wrote    = "wrote"   // the counter without a guard was written
	guarded  = "guarded" // the guarded counter was written
	refused  = "refused" // the guard refused the fence
	parent   = "parent"  // fence is the number of children
	rooted   = "root"    // it has become the root
	unrooted = "unroot"  // it is no longer the root
)

// event is a line of a history.
type event struct {
	at       instant
	what     string
	resource string
	fence    uint64
}

// history is the diary of one process. A line is one write at the end of the
// file: kill -9 loses nothing that was written down.
type history struct{ file *os.File }

func openHistory(path string) (*history, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return &history{f}, err
}

func (h *history) add(at instant, what, resource string, fence uint64) {
	if _, err := fmt.Fprintf(h.file, "%d %s %s %d\n", at, what, resource, fence); err != nil {
		panic(err) // a history with holes proves nothing
	}
}

// reader follows a history that is being written.
type reader struct {
	path   string
	offset int64
	events []event
}

// read takes in the complete lines that have come.
func (r *reader) read() error {
	f, err := os.Open(r.path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, _ := f.ReadAt(buffer, r.offset) // io.EOF, mostly
		end := bytes.LastIndexByte(buffer[:n], '\n') + 1
		if end == 0 {
			return nil
		}
		for line := range bytes.Lines(buffer[:end]) {
			var e event
			if _, err := fmt.Sscan(string(line), &e.at, &e.what, &e.resource, &e.fence); err != nil {
				return fmt.Errorf("%s: %q: %w", r.path, line, err)
			}
			r.events = append(r.events, e)
		}
		r.offset += int64(end)
	}
}

// last returns the latest event among those named.
func (r *reader) last(names ...string) event {
	for i := len(r.events) - 1; i >= 0; i-- {
		for _, name := range names {
			if r.events[i].what == name {
				return r.events[i]
			}
		}
	}
	return event{}
}

// first returns the first of a kind for the resource after the instant.
func (r *reader) first(what, resource string, after instant) (event, bool) {
	for i := len(r.events) - 1; i >= 0; i-- {
		// Backwards: only the end of a long history matters.
		if e := r.events[i]; e.at <= after && e.what == called {
			return firstOf(r.events[i:], what, resource, after)
		}
	}
	return firstOf(r.events, what, resource, after)
}

func firstOf(events []event, what, resource string, after instant) (event, bool) {
	for _, e := range events {
		if e.what == what && e.resource == resource && e.at > after {
			return e, true
		}
	}
	return event{}, false
}
