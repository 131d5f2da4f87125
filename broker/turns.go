package broker

import (
	"context"
	"sync"
)

// turns bounds how many passwords are checked at a time, or from how many strangers or users what
// they send is processed. Addresses take turns, and so do the names at an address: whoever guesses a
// thousand passwords waits for itself. Users have no address, but for decoders.
type turns struct {
	mu    sync.Mutex
	free  int
	order []string // addresses with somebody who waits, the next one first
	at    map[string]*line
}

// line is who waits at one address.
type line struct {
	order []string // names, the next one first
	named map[string][]*turn
}

// turn has come when it is closed.
type turn struct{ come chan struct{} }

func newTurns(n int) *turns { return &turns{free: n, at: map[string]*line{}} }

// takeFree takes a turn if it need not wait for it.
func (t *turns) takeFree() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		return false
	}
	t.free--
	return true
}

// take waits for a turn, which must be given back, or until ctx ends.
func (t *turns) take(ctx context.Context, address, name string) error {
	t.mu.Lock()
	if t.free > 0 { // so nobody waits
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := &turn{make(chan struct{})}
	t.queue(address, name, mine)
	t.mu.Unlock()
	select {
	case <-mine.come:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.withdraw(address, name, mine) {
		t.pass() // it came just now
	}
	return context.Cause(ctx)
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

func (t *turns) queue(address, name string, mine *turn) {
	l := t.at[address]
	if l == nil {
		l = &line{named: map[string][]*turn{}}
		t.at[address] = l
		t.order = append(t.order, address)
	}
	if len(l.named[name]) == 0 {
		l.order = append(l.order, name)
	}
	l.named[name] = append(l.named[name], mine)
}

// pass hands a turn on.
func (t *turns) pass() {
	if len(t.order) == 0 {
		t.free++
		return
	}
	address := t.order[0]
	l := t.at[address]
	name := l.order[0]
	close(l.named[name][0].come)
	t.order, l.order = append(t.order[1:], address), append(l.order[1:], name)
	t.remove(address, name, 0)
}

// withdraw reports whether the turn was still waited for.
func (t *turns) withdraw(address, name string, mine *turn) bool {
	l := t.at[address]
	if l == nil {
		return false
	}
	for i, other := range l.named[name] {
		if other == mine {
			t.remove(address, name, i)
			return true
		}
	}
	return false
}

func (t *turns) remove(address, name string, i int) {
	l := t.at[address]
	if waiting := l.named[name]; len(waiting) > 1 {
		if i == 0 { // the usual, of thousands
			waiting[0] = nil
			l.named[name] = waiting[1:]
		} else {
			l.named[name] = append(waiting[:i:i], waiting[i+1:]...)
		}
		return
	}
	delete(l.named, name)
	l.order = without(l.order, name)
	if len(l.named) == 0 {
		delete(t.at, address)
		t.order = without(t.order, address)
	}
}

func without(all []string, one string) []string {
	for i, s := range all {
		if s == one {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}
