package gateway

// fair is a queue in which clients take turns: who has much in it waits for itself. What one client
// has in it keeps its order.
type fair[T any] struct {
	order []string // clients with something in it, the next one first
	of    map[string][]T
	size  int
}

func (q *fair[T]) put(client string, x T) {
	if q.of == nil {
		q.of = map[string][]T{}
	}
	if len(q.of[client]) == 0 {
		q.order = append(q.order, client)
	}
	q.of[client] = append(q.of[client], x)
	q.size++
}

// has is how many things a client has in it.
func (q *fair[T]) has(client string) int { return len(q.of[client]) }

// next is what take will return.
func (q *fair[T]) next() (x T, ok bool) {
	if q.size == 0 {
		return x, false
	}
	return q.of[q.order[0]][0], true
}

func (q *fair[T]) take() (x T, ok bool) {
	if x, ok = q.next(); !ok {
		return x, false
	}
	client := q.order[0]
	var none T
	q.of[client][0] = none // or it would be kept
	q.order = q.order[1:]
	if rest := q.of[client][1:]; len(rest) > 0 {
		q.of[client] = rest
		q.order = append(q.order, client)
	} else {
		delete(q.of, client)
	}
	if q.size--; q.size == 0 {
		q.order = nil
	}
	return x, true
}
