package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is wrapped by the error of a fence that is below the highest seen: a
// later holder has been here. The error is a [*StaleError].
var ErrStale = errors.New("fence: stale")

// ErrNone says that the fence is 0, which no holder has.
var ErrNone = errors.New("fence: none given")

// StaleError says which fence was refused.
type StaleError struct {
	Resource string
	Fence    uint64 // refused
	Highest  uint64 // seen before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %q has seen fence %d, this is %d: the lock was lost, take it again", ErrStale, e.Resource, e.Highest, e.Fence)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Guard remembers the highest fence for each resource. The zero value is one that
// starts with none and lives in memory: it must live as long as the resource, or
// a late holder finds a guard that knows nothing. For what outlives the process
// take [Open]. A Guard may be used by several goroutines, and must not be copied.
type Guard struct {
	mu      sync.Mutex // held during an access
	highest map[string]uint64
	file    *file // nil: in memory
}

// Do runs access if fence is not below the highest seen for the resource, and
// returns its error. Otherwise it returns a *StaleError, which wraps ErrStale, and
// access does not run. The fence counts as seen before access runs, also if that
// fails. The same fence may come any number of times.
//
// One access runs at a time, over all resources of the guard, so access should be
// short; it must not use the guard.
func (g *Guard) Do(resource string, fence uint64, access func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		if err := g.file.lock(); err != nil {
			return err
		}
		defer g.file.unlock()
	}
	if err := g.admit(resource, fence); err != nil {
		return err
	}
	return access()
}

// Admit is Do without an access: for a caller that handles accesses one after the
// other. Otherwise a later fence may be admitted, and act, before this caller does.
func (g *Guard) Admit(resource string, fence uint64) error {
	return g.Do(resource, fence, func() error { return nil })
}

func (g *Guard) admit(resource string, fence uint64) error {
	if fence == 0 {
		return fmt.Errorf("%w for %q: pass on Hold.Fence", ErrNone, resource)
	}
	seen := g.highest
	if g.file != nil {
		var err error
		if seen, err = g.file.read(); err != nil {
			return err
		}
	}
	switch highest := seen[resource]; {
	case fence < highest:
		return &StaleError{Resource: resource, Fence: fence, Highest: highest}
	case fence == highest:
		return nil
	}
	if seen == nil {
		seen = map[string]uint64{}
	}
	seen[resource] = fence
	if g.file != nil {
		return g.file.write(seen)
	}
	g.highest = seen
	return nil
}
