package registertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"padme/qosmutex/register"
)

// History records calls and what came of them, from any number of goroutines. Each
// client makes one call at a time.
type History struct {
	mu     sync.Mutex
	begun  time.Time
	events []porcupine.Operation
	counts map[string]int
}

// NewHistory returns an empty one.
func NewHistory() *History {
	return &History{begun: time.Now(), counts: map[string]int{}}
}

// call is what porcupine sees of a call.
type call struct {
	key      string
	write    bool
	old, new register.Version // of a write
}

// outcome is what a call returned.
type outcome struct {
	made    bool             // a write succeeded
	unknown bool             // whether it did is not known
	current register.Version // what a read or a conflict saw
}

func (h *History) now() int64 { return int64(time.Since(h.begun)) }

func (h *History) add(client int, c call, from int64, o outcome, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
	to := h.now()
	if o.unknown {
		to = 1 << 62 // it may still happen
	}
	h.events = append(h.events, porcupine.Operation{ClientId: client, Input: c, Output: o, Call: from, Return: to})
}

// Get reads a key of a register as the given client.
func (h *History) Get(ctx context.Context, client int, r register.Register, key string) (register.Entry, error) {
	from := h.now()
	e, err := r.Get(ctx, key)
	if err == nil {
		h.add(client, call{key: key}, from, outcome{current: e.Version}, "read")
	}
	return e, err
}

// Write makes one write as the given client. The write gets a nonce if it has none.
func (h *History) Write(ctx context.Context, client int, r register.Register, w register.Write) register.Result {
	if w.Nonce == 0 {
		w.Nonce = register.NewNonce()
	}
	from := h.now()
	res := r.CompareAndSet(ctx, w)[0]
	c := call{key: w.Key, write: true, old: w.Old, new: w.Old.Next(w.Old.Domain, w.Nonce)}
	var conflict *register.Conflict
	switch {
	case res.Err == nil:
		h.add(client, c, from, outcome{made: true}, "made")
	case errors.Is(res.Err, register.ErrUnknown):
		h.add(client, c, from, outcome{unknown: true}, "unknown")
	case errors.As(res.Err, &conflict):
		h.add(client, c, from, outcome{current: conflict.Current.Version}, "conflict")
	default:
		h.mu.Lock()
		h.counts["unavailable"]++
		h.mu.Unlock()
	}
	return res
}

// Count returns how many calls had an outcome: read, made, conflict, unknown or
// unavailable.
func (h *History) Count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[what]
}

// String is one line of figures.
func (h *History) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.counts)
}

// Check fails the test unless the calls are linearizable, key by key.
func (h *History) Check(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(model, h.events, time.Minute) {
	case porcupine.Illegal:
		t.Errorf("%d calls are not linearizable", len(h.events))
		for _, e := range h.events {
			c, o := e.Input.(call), e.Output.(outcome)
			t.Logf("%12d %12d client %d %s write=%v %v → %v made=%v unknown=%v current=%v", e.Call/1000, e.Return/1000, e.ClientId, c.key, c.write, c.old, c.new, o.made, o.unknown, o.current)
		}
	case porcupine.Unknown:
		t.Errorf("whether %d calls are linearizable was not found out in a minute", len(h.events))
	}
}

// model is a register whose values are its versions, which are all different.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string]int{}
		var parts [][]porcupine.Operation
		for _, op := range history {
			key := op.Input.(call).key
			i, ok := byKey[key]
			if !ok {
				i = len(parts)
				byKey[key] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return register.Version{} },
	Step: func(state, input, output any) (bool, any) {
		at, c, o := state.(register.Version), input.(call), output.(outcome)
		switch {
		case o.unknown && at == blank(c.old):
			return true, c.new
		case o.unknown:
			return true, at
		case o.made: // or it is a repetition of one that was made
			return at == blank(c.old) || at == c.new, c.new
		case c.write:
			return at != blank(c.old) && at == blank(o.current), at
		}
		return at == blank(o.current), at
	},
}

// blank drops the domain of the version that means that a key was never written.
func blank(v register.Version) register.Version {
	if v.Counter == 0 {
		return register.Version{}
	}
	return v
}

// Linearizable has clients read and write two keys of some registers that are one,
// each client n times, and checks what they saw.
func Linearizable(t *testing.T, registers []register.Register, clients, n int) {
	t.Helper()
	h := NewHistory()
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			r := registers[client%len(registers)]
			for range n {
				key := [...]string{"a", "b"}[random.IntN(2)]
				e, err := h.Get(within(t), client, r, key)
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				if random.IntN(2) == 0 {
					continue
				}
				res := h.Write(within(t), client, r, register.Write{Key: key, Old: e.Version, Value: []byte{byte(client)}, Renewal: time.Duration(random.IntN(2)) * 500 * time.Millisecond})
				if res.Err != nil && !errors.Is(res.Err, register.ErrConflict) {
					t.Errorf("write: %v", res.Err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Log(h)
	if h.Count("made") < n/4 {
		t.Errorf("only %d writes were made", h.Count("made"))
	}
	h.Check(t)
}
