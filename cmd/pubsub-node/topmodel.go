package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// topSnapshot is what `top` shows at a time.
type topSnapshot struct {
	At           time.Time `json:"at"`
	Connected    bool      `json:"connected"`
	Participants int       `json:"participants"` // alive
	Held         int       `json:"held"`
	Waiting      int       `json:"waiting"`           // requests
	Rate         float64   `json:"rate"`              // entries per second since the last snapshot
	Missing      []string  `json:"missing,omitempty"` // voters that the roots miss
	Locks        []topLock `json:"locks"`
}

type topLock struct {
	qosmutex.State
	Rate float64 `json:"rate"`
}

// lockID names a resource of a lock topic.
type lockID struct{ topic, resource string }

// topModel gathers what the broker tells. Its goroutines end with stop.
type topModel struct {
	p      *pubsub.Participant
	cancel context.CancelFunc
	done   sync.WaitGroup
	failed chan error // the first error that ends the watching

	mu      sync.Mutex
	states  map[lockID]qosmutex.State
	views   map[string]qosmutex.View
	entries map[lockID]int // since the last snapshot
	alive   map[string]bool
	last    time.Time // of the last snapshot, or of the beginning
}

// watchLocks begins to gather. An empty name means all locks. The caller must stop it.
func watchLocks(ctx context.Context, p *pubsub.Participant, name string) *topModel {
	ctx, cancel := context.WithCancel(ctx)
	m := &topModel{
		p: p, cancel: cancel, failed: make(chan error, 1), last: time.Now(),
		states: map[lockID]qosmutex.State{}, views: map[string]qosmutex.View{}, entries: map[lockID]int{}, alive: map[string]bool{},
	}
	m.done.Go(func() { m.watchStates(ctx, name) })
	m.done.Go(func() { m.watchViews(ctx, name) })
	m.done.Go(func() { m.watchEvents(ctx, name) })
	m.done.Go(func() { m.watchPeers(ctx) })
	return m
}

func (m *topModel) stop() {
	m.cancel()
	m.done.Wait()
}

func (m *topModel) fail(err error) {
	select {
	case m.failed <- err:
	default:
	}
}

func (m *topModel) watchStates(ctx context.Context, name string) {
	for st, err := range qosmutex.WatchStates(ctx, m.p, name) {
		if errors.Is(err, qosmutex.ErrMissed) {
			continue // it is told again when it changes
		}
		if err != nil {
			m.fail(err)
			return
		}
		if !asked(name, st.Topic) {
			continue
		}
		m.mu.Lock()
		if m.states[lockID{st.Topic, st.Resource}] = st; st.Epoch == "" { // cleared
			delete(m.states, lockID{st.Topic, st.Resource})
		}
		m.mu.Unlock()
	}
}

func (m *topModel) watchViews(ctx context.Context, name string) {
	for v, err := range watchViews(ctx, m.p, name) {
		if err != nil {
			if ctx.Err() == nil {
				m.fail(err)
			}
			return
		}
		m.mu.Lock()
		m.views[v.Topic] = v
		m.mu.Unlock()
	}
}

func (m *topModel) watchEvents(ctx context.Context, name string) {
	for e, err := range qosmutex.WatchEvents(ctx, m.p, name) {
		switch {
		case errors.Is(err, qosmutex.ErrMissed): // the rate is too low for a moment
		case err != nil:
			m.fail(err)
			return
		case e.Event == qosmutex.EventGranted && asked(name, e.Topic):
			m.mu.Lock()
			m.entries[lockID{e.Topic, e.Resource}]++
			m.mu.Unlock()
		}
	}
}

func (m *topModel) watchPeers(ctx context.Context) {
	for peer, err := range m.p.Peers(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				m.fail(err)
			}
			return
		}
		m.mu.Lock()
		if peer.Alive {
			m.alive[peer.ID] = true
		} else {
			delete(m.alive, peer.ID)
		}
		m.mu.Unlock()
	}
}

// snapshot begins the next interval.
func (m *topModel) snapshot(now time.Time) topSnapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	elapsed := max(now.Sub(m.last), time.Millisecond).Seconds()
	snap := topSnapshot{At: now.UTC(), Connected: m.p.Connected(), Participants: len(m.alive), Locks: []topLock{}}
	snap.Missing = missingVoters(slices.Collect(maps.Values(m.views)))
	for id, st := range m.states {
		n := m.entries[id]
		snap.Rate += float64(n) / elapsed
		snap.Waiting += st.Waiting
		if st.Holder != "" {
			snap.Held++
		}
		snap.Locks = append(snap.Locks, topLock{st, float64(n) / elapsed})
	}
	clear(m.entries)
	m.last = now
	slices.SortFunc(snap.Locks, func(a, b topLock) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), heldFirst(a, b),
			strings.Compare(a.Topic, b.Topic), strings.Compare(a.Resource, b.Resource))
	})
	return snap
}

func heldFirst(a, b topLock) int {
	switch {
	case a.Holder != "" && b.Holder == "":
		return -1
	case a.Holder == "" && b.Holder != "":
		return 1
	}
	return 0
}
