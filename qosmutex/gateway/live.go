package gateway

import "sync"

// live counts the requests that wait or hold, of all lock topics. The zero live is ready.
type live struct {
	mu       sync.Mutex
	total    int
	byClient map[string]int
}

func (l *live) add(client string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byClient == nil {
		l.byClient = map[string]int{}
	}
	l.total += n
	if l.byClient[client] += n; l.byClient[client] <= 0 {
		delete(l.byClient, client)
	}
}

// counts returns how many there are, and how many of a client.
func (l *live) counts(client string) (total, own int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.byClient[client]
}
