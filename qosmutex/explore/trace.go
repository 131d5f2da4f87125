package explore

import (
	"fmt"
	"hash/maphash"
	"io"
	"strings"
)

// Trace is one run of a world.
type Trace struct {
	Config  Config
	Actions []Action
}

// String writes the trace as ParseTrace reads it: the configuration, and each
// action on a line of its own.
func (t Trace) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, &t.Config)
	for _, a := range t.Actions {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}

// ParseTrace reads what String wrote. Empty lines, and those that begin with # or a
// space, are left out.
func ParseTrace(s string) (t Trace, err error) {
	begun := false
	for _, line := range strings.Split(s, "\n") {
		if line == "" || line[0] == '#' || line[0] == ' ' {
			continue
		}
		if !begun {
			begun = true
			if t.Config, err = parseConfig(line); err != nil {
				return t, err
			}
			continue
		}
		a, err := parseAction(line)
		if err != nil {
			return t, err
		}
		t.Actions = append(t.Actions, a)
	}
	if !begun {
		return t, fmt.Errorf("explore: an empty trace")
	}
	return t, nil
}

// Replay plays a trace and writes to out what follows from each action. The error
// is the first invariant that does not hold, a *Violation of the actions up to
// there; or it says that an action was not possible.
func Replay(t Trace, out io.Writer) error {
	w, err := newWorld(&t.Config)
	if err != nil {
		return err
	}
	h := newHasher(maphash.MakeSeed())
	w.trace = func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	for i, a := range t.Actions {
		w.log("%v", a)
		if !w.possible(a) {
			return fmt.Errorf("explore: action %d, %v, is not possible", i+1, a)
		}
		if w = w.after(a, w.out); w.failure == nil && w.still() {
			end := w.copy(w.out)
			if i+1 < len(t.Actions) {
				end.trace = nil
			}
			end.checkStill(nil, h)
			w.failure = end.failure
		}
		if w.failure != nil {
			w.log("VIOLATION %v", w.failure)
			return &Violation{Trace{t.Config, t.Actions[:i+1]}, w.failure}
		}
	}
	return nil
}
