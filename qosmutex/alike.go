package qosmutex

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// When a machine is busy, or a register away, hundreds of topics of a server say the same at
// once. alike makes one line of that, which counts them: a second after the first, and then at
// most one a minute.
type alike struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*alikeLine // by the text of the line
	stirs chan struct{}         // has room for one: something is gathered
}

// alikeLine is what topics have said since the last line of a kind.
type alikeLine struct {
	locks map[string]bool // as many as a server may have open
	args  []any           // of the first of them
	due   time.Time
	last  time.Time
}

const (
	atOnce = time.Second // for how long the first line of a kind is kept back
	rarely = time.Minute // between two lines of a kind
	named  = 3           // how many locks a line names
)

func newAlike(log *slog.Logger) *alike {
	return &alike{log: log, kinds: map[string]*alikeLine{}, stirs: make(chan struct{}, 1)}
}

// warn has a line say that of a lock. A topic that no server has opened says it itself.
func (t *Topic) warn(text string, args ...any) {
	if t.alike == nil {
		t.log.Warn(text, args...)
		return
	}
	t.alike.add(t.name, text, args)
}

func (a *alike) add(lock, text string, args []any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.kinds[text]
	if g == nil {
		g = &alikeLine{locks: map[string]bool{}}
		a.kinds[text] = g
	}
	if len(g.locks) == 0 {
		g.args, g.due = args, time.Now().Add(atOnce)
		if next := g.last.Add(rarely); next.After(g.due) {
			g.due = next
		}
	}
	g.locks[lock] = true
	select {
	case a.stirs <- struct{}{}:
	default:
	}
}

// run writes the lines that are due, and when ctx ends all others.
func (a *alike) run(ctx context.Context) {
	for {
		wait := a.tell(time.Now())
		select {
		case <-ctx.Done():
			a.tell(time.Now().Add(rarely))
			return
		case <-a.stirs:
		case <-time.After(wait):
		}
	}
}

// tell writes what is due, and returns in what time there is something more at the latest.
func (a *alike) tell(now time.Time) time.Duration {
	a.mu.Lock()
	next := rarely
	var lines []func()
	for text, g := range a.kinds {
		switch {
		case len(g.locks) == 0:
		case g.due.After(now):
			next = min(next, g.due.Sub(now))
		default:
			locks := slices.SortedFunc(maps.Keys(g.locks), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
			args := append([]any{"locks", len(locks), "lock", strings.Join(locks[:min(len(locks), named)], ", ")}, g.args...)
			lines = append(lines, func() { a.log.Warn(text, args...) })
			g.locks, g.args, g.last = map[string]bool{}, nil, now
		}
	}
	a.mu.Unlock()
	for _, line := range lines {
		line()
	}
	return next
}
