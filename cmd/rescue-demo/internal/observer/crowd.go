package observer

import (
	"slices"
	"time"

	"padme/qosmutex"
)

// crowd is who waits at a moment that moves forward only, so that going through
// a whole history takes time in proportion to it.
type crowd struct {
	coming  []*request // in the order of asking
	waiting []*request
}

func (h *History) crowd() *crowd {
	c := &crowd{coming: make([]*request, 0, len(h.requests))}
	for _, q := range h.requests {
		c.coming = append(c.coming, q)
	}
	slices.SortFunc(c.coming, func(a, b *request) int { return a.asked.Compare(b.asked) })
	return c
}

// at returns the requests which wait at t, which must not be before the t of an
// earlier call. The result is valid until the next call.
func (c *crowd) at(t time.Time) []*request {
	for len(c.coming) > 0 && !c.coming[0].asked.After(t) {
		c.waiting = append(c.waiting, c.coming[0])
		c.coming = c.coming[1:]
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(q *request) bool { return !q.done.IsZero() && !q.done.After(t) })
	return c.waiting
}

// wants reports whether r would take the resource.
func (r *request) wants(resource string) bool {
	return r.resource == qosmutex.Any || r.resource == resource
}

// priorityAt returns the priority r had at time t.
func (r *request) priorityAt(t time.Time) int64 {
	priority := r.priorities[0].priority
	for _, p := range r.priorities[1:] {
		if p.at.After(t) {
			break
		}
		priority = p.priority
	}
	return priority
}
