package parts

import (
	"context"
	"maps"
	"sync"
	"time"
)

// shared has callers who ask for one thing each share questions. A participant that takes part
// in a thousand locks renews or reads the record of each several times a second, and a thing
// more in a question costs far less than a question more. The zero shared is ready for use.
type shared[T, R any] struct {
	mu   sync.Mutex
	next map[time.Duration]*question[T, R] // that is still to be asked, by the pause after it
	free map[time.Duration]time.Time       // when one after it may be asked
}

// kind says how things of one kind are asked for.
type kind[T, R any] struct {
	pause time.Duration // between the questions
	most  int           // things in a question
	ask   func(context.Context, []T) []R
}

// question is one for several callers.
type question[T, R any] struct {
	things  []T
	keys    map[string]bool
	due     time.Time
	until   time.Time // the latest deadline of a caller, unless one has none
	endless bool
	left    int             // callers who have left
	ctx     context.Context // ends when all have
	end     context.CancelFunc
	results []R // once done is closed
	done    chan struct{}
}

// ask asks for one thing: at once if there was no question lately, else with those that come
// soon. It reports false if ctx has ended before there was an answer.
func (s *shared[T, R]) ask(ctx context.Context, thing T, key string, k kind[T, R]) (result R, ok bool) {
	q, n := s.join(ctx, thing, key, k)
	select {
	case <-q.done:
		return q.results[n], true
	case <-ctx.Done():
	}
	// Those who share a question lose patience at about the same time, and then the answer
	// says who is missing.
	s.leave(q)
	timer := time.NewTimer(2 * k.pause)
	defer timer.Stop()
	select {
	case <-q.done:
		return q.results[n], true
	case <-timer.C:
		return result, false
	}
}

// join adds a thing to the next question, and returns which one of it it is.
func (s *shared[T, R]) join(ctx context.Context, thing T, key string, k kind[T, R]) (*question[T, R], int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.next[k.pause]
	switch {
	case q == nil || q.keys[key] || q.left == len(q.things):
		q = s.begin(k, s.free[k.pause])
	case len(q.things) == k.most:
		q = s.begin(k, q.due)
	}
	n := len(q.things)
	q.things, q.keys[key] = append(q.things, thing), true
	if until, ok := ctx.Deadline(); !ok {
		q.endless = true
	} else if until.After(q.until) {
		q.until = until
	}
	return q, n
}

// begin begins a question that may be asked from then on. The caller holds mu.
func (s *shared[T, R]) begin(k kind[T, R], from time.Time) *question[T, R] {
	now := time.Now()
	if s.next == nil {
		s.next, s.free = map[time.Duration]*question[T, R]{}, map[time.Duration]time.Time{}
	}
	maps.DeleteFunc(s.free, func(_ time.Duration, at time.Time) bool { return !at.After(now) })
	q := &question[T, R]{keys: map[string]bool{}, due: now, done: make(chan struct{})}
	q.ctx, q.end = context.WithCancel(context.Background())
	if from.After(now) {
		q.due = from
	}
	s.next[k.pause], s.free[k.pause] = q, q.due.Add(k.pause)
	time.AfterFunc(q.due.Sub(now), func() { s.carry(q, k) })
	return q
}

// carry asks a question, for as long as somebody waits for the answer.
func (s *shared[T, R]) carry(q *question[T, R], k kind[T, R]) {
	s.mu.Lock()
	if s.next[k.pause] == q {
		delete(s.next, k.pause)
	}
	s.mu.Unlock() // no caller joins any more
	defer q.end()
	ctx := q.ctx
	if !q.endless {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, q.until)
		defer cancel()
	}
	q.results = k.ask(ctx, q.things)
	close(q.done)
}

// leave has a caller wait no more. The last one ends the question.
func (s *shared[T, R]) leave(q *question[T, R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.left++; q.left == len(q.things) {
		q.end()
	}
}
