package parts

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"padme/qosmutex/register"
)

// Shared has renewals that are asked for one by one share questions. A participant that is
// the root of a thousand locks renews each of them several times a second, and a renewal more
// in a question costs far less than a question more. The zero Shared is ready for use.
type Shared struct {
	mu   sync.Mutex
	next map[time.Duration]*question // that is still to be asked, by what its renewals are good for
	free map[time.Duration]time.Time // when one after it may be asked
}

// pause is how long after a question the next one may follow, if its renewals are good for as
// long: little beside the eighth of that which a question may take.
func pause(good time.Duration) time.Duration { return min(good/64, 100*time.Millisecond) }

// question is a call with the renewals of several callers.
type question struct {
	writes  []register.Write
	keys    map[string]bool
	ctx     context.Context // ends when all callers have gone
	cancel  context.CancelFunc
	callers int
	results []register.Result // once done is closed
	done    chan struct{}
}

// askAll makes the writes of a question.
type askAll = func(context.Context, []register.Write) []register.Result

// CompareAndSet makes writes like the function of that name. One that is a single renewal is
// made at once if there was no other lately, else with those that come soon.
func (s *Shared) CompareAndSet(ctx context.Context, writes []register.Write, most Limits, ask func(context.Context, []register.Write) ([]register.Result, error)) []register.Result {
	all := func(ctx context.Context, writes []register.Write) []register.Result {
		return CompareAndSet(writes, most, func(some []register.Write) ([]register.Result, error) { return ask(ctx, some) })
	}
	if len(writes) == 1 && writes[0].Renewal > 0 {
		return []register.Result{s.ask(ctx, writes[0], all)}
	}
	return all(ctx, writes)
}

func (s *Shared) ask(ctx context.Context, w register.Write, ask askAll) register.Result {
	if err := ctx.Err(); err != nil {
		return register.Result{Err: &register.Unavailable{Cause: err}}
	}
	q, n := s.join(w, ask)
	select {
	case <-q.done:
		return q.results[n]
	case <-ctx.Done():
	}
	// Those who share a question lose patience at about the same time, and then the register
	// says who is missing.
	s.leave(q)
	timer := time.NewTimer(2 * pause(w.Renewal))
	defer timer.Stop()
	unavailable := &register.Unavailable{Unknown: true, Cause: ctx.Err()}
	select {
	case <-q.done:
		r := q.results[n]
		var u *register.Unavailable
		if !errors.As(r.Err, &u) {
			return r
		}
		unavailable.Missing, unavailable.Unknown = u.Missing, u.Unknown
	case <-timer.C:
	}
	return register.Result{Err: unavailable}
}

// join adds a write to the next question, and returns which one of it the write is.
func (s *Shared) join(w register.Write, ask askAll) (*question, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.next[w.Renewal]
	if q == nil || q.callers == 0 || q.keys[w.Key] {
		q = s.begin(w.Renewal, ask)
	}
	n := len(q.writes)
	q.writes, q.keys[w.Key] = append(q.writes, w), true
	q.callers++
	return q, n
}

// begin begins a question. The caller holds mu.
func (s *Shared) begin(good time.Duration, ask askAll) *question {
	now := time.Now()
	if s.next == nil {
		s.next, s.free = map[time.Duration]*question{}, map[time.Duration]time.Time{}
	}
	maps.DeleteFunc(s.free, func(_ time.Duration, at time.Time) bool { return !at.After(now) })
	due := now
	if at, ok := s.free[good]; ok {
		due = at
	}
	q := &question{keys: map[string]bool{}, done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	s.next[good], s.free[good] = q, due.Add(pause(good))
	time.AfterFunc(due.Sub(now), func() {
		s.mu.Lock()
		if s.next[good] == q {
			delete(s.next, good) // nobody joins any more
		}
		s.mu.Unlock()
		q.results = ask(q.ctx, q.writes)
		close(q.done)
		q.cancel()
	})
	return q
}

// leave has a caller wait no more. The last one ends the question.
func (s *Shared) leave(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.callers--; q.callers == 0 {
		q.cancel()
	}
}
