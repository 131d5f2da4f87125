package broker

import "sync"

// idTurns are held by the one of each client id that connects or ends. A turn may last for as
// long as something can be written to its client, so no other id waits for it: an id belongs
// to one user. The zero value is ready to use.
type idTurns struct {
	mu   sync.Mutex
	held map[string]*idTurn
}

type idTurn struct {
	sync.Mutex
	wanted int // by how many; guarded by the mu of idTurns
}

// take blocks until it is the turn of the caller, which ends with give.
func (t *idTurns) take(id string) (give func()) {
	t.mu.Lock()
	turn := t.want(id)
	t.mu.Unlock()
	turn.Lock()
	return func() { t.give(id, turn) }
}

// takeFree is take if the turn is neither held nor wanted, and else nil.
func (t *idTurns) takeFree(id string) (give func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[id] != nil {
		return nil
	}
	turn := t.want(id)
	turn.Lock()
	return func() { t.give(id, turn) }
}

// want has mu held.
func (t *idTurns) want(id string) *idTurn {
	if t.held == nil {
		t.held = map[string]*idTurn{}
	}
	turn := t.held[id]
	if turn == nil {
		turn = &idTurn{}
		t.held[id] = turn
	}
	turn.wanted++
	return turn
}

func (t *idTurns) give(id string, turn *idTurn) {
	turn.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.wanted--; turn.wanted == 0 {
		delete(t.held, id)
	}
}
