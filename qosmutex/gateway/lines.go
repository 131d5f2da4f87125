package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"padme/internal/wait"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// lines are the tickets that wait here, by resource, in the order in which the gateway's own
// requests are served. What the root says of them and of others is in queue.
type lines map[string][]*ticket

func inLine(a, b *ticket) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.arrived, b.arrived))
}

func (l lines) join(t *ticket) {
	line := l[t.resource]
	i, _ := slices.BinarySearchFunc(line, t, inLine)
	l[t.resource] = slices.Insert(line, i, t)
}

func (l lines) leave(t *ticket) {
	line := l[t.resource]
	i, there := slices.BinarySearchFunc(line, t, inLine)
	if !there {
		return
	}
	if line = slices.Delete(line, i, i+1); len(line) == 0 {
		delete(l, t.resource)
		return
	}
	l[t.resource] = line
}

// position says which of those that wait for its resource t is, from 1.
func (l lines) position(t *ticket) int {
	i, _ := slices.BinarySearchFunc(l[t.resource], t, inLine)
	return i + 1
}

// queue is what the root publishes of the waiters of each resource that is asked for.
type queue struct {
	mu     sync.Mutex
	asked  map[string]int // live tickets by resource
	latest map[string][]qosmutex.Waiter
	wg     sync.WaitGroup
}

// watch reads states until ctx ends.
func (q *queue) watch(ctx context.Context, t *topic) {
	q.asked, q.latest = map[string]int{}, map[string][]qosmutex.Waiter{}
	q.wg.Go(func() {
		for ctx.Err() == nil && t.g.p.Err() == nil {
			for st, err := range qosmutex.WatchStates(ctx, t.g.p, t.name) {
				if err == nil {
					q.note(st.Resource, st.Queue)
				} else if !errors.Is(err, qosmutex.ErrMissed) {
					break
				}
			}
			wait.Sleep(ctx, againAfter)
		}
	})
}

// note keeps the queue of a resource that somebody asks for: the names of others are
// without bound.
func (q *queue) note(resource string, waiting []qosmutex.Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked[resource] > 0 {
		q.latest[resource] = waiting
	}
}

func (q *queue) join(resource string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked[resource]++
}

func (q *queue) leave(resource string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked[resource]--; q.asked[resource] <= 0 {
		delete(q.asked, resource)
		delete(q.latest, resource)
	}
}

// position finds t among those that came through the gateway; 0: it is not among those
// that the root has named.
func (q *queue) position(gateway string, t *ticket) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	client, same := t.client.shown(), t.same()
	for i, w := range q.latest[t.resource] {
		if w.Participant == client && w.Via == gateway && w.Priority == t.priority {
			if same--; same == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// same says which of those that wait for its resource with its priority, of its client, t is.
func (t *ticket) same() int {
	n := 1
	for _, o := range t.client.tickets {
		if o.outcome == jsonlock.Waiting && o.resource == t.resource && o.priority == t.priority && o.arrived < t.arrived {
			n++
		}
	}
	return n
}
