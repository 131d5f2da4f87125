package qosmutex

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/poll"
)

// Names of resources that come and go do not fill the broker: of those that nobody uses the
// states of the last ones stay, and what is used is always shown.
func TestIdleStatesAreCleared(t *testing.T) {
	t.Parallel()
	root := open(t, join(t, startBroker(t, "127.0.0.1:0").URL(), "root"), "t", Create(), WithOpenResources())
	var mu sync.Mutex
	shown, said := map[string]bool{}, 0
	stop, err := root.p.SubscribeRaw(t.Context(), pubsub.Main, []string{"lock", "t", "+", "state"}, func(m pubsub.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		if delete(shown, m.Levels[2]); len(m.Payload) > 0 {
			shown[m.Levels[2]] = true
			said++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	look := func(resource string) (there bool, all int) {
		mu.Lock()
		defer mu.Unlock()
		return shown[resource], len(shown)
	}
	name := func(i int) string { return fmt.Sprint("order-", i) }
	held := lock(t, root, "held")
	const used = 3*maxIdle + 100
	first := uint64(0)
	for i := range used {
		h := lock(t, root, name(i))
		if unlock(t, h); i == 0 {
			first = h.Fence()
		}
		if i%100 == 0 {
			poll.Until(t, "it is shown", func() bool { there, _ := look(name(i)); return there })
		}
	}
	poll.Until(t, "no more are shown than that", func() bool { last, all := look(name(used - 1)); return last && all == maxIdle+1 })
	for i, want := range map[int]bool{0: false, used - maxIdle - 1: false, used - maxIdle: true, used - 1: true} {
		if there, _ := look(name(i)); there != want {
			t.Errorf("%s is shown: %v", name(i), there)
		}
	}
	if there, _ := look("held"); !there {
		t.Error("what is held is not shown")
	}
	mu.Lock()
	said = 0
	mu.Unlock()
	root.mu.Lock()
	root.board.lookAgain() // as after a restart of the broker
	for _, n := range root.board.resources {
		root.board.idle.note(n, false) // as in a new term, in which none was used yet
		n.faded, n.cleared = false, false
	}
	root.mu.Unlock()
	poll.Until(t, "no more are shown again", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		_, all := look("")
		return all <= maxIdle+1 && root.board.idle.list.Len() == maxIdle && len(root.board.dirty) == 0
	})
	mu.Lock()
	if said > maxIdle+50 { // some were on their way
		t.Errorf("%d states were shown again", said)
	}
	mu.Unlock()
	root.mu.Lock()
	notices := len(root.board.resources)
	root.mu.Unlock()
	if known := len(root.Status().Resources); known > 2*maxIdle+2 || notices > known {
		t.Errorf("%d resources and %d notices are remembered", known, notices)
	}
	again := lock(t, root, name(0))
	if again.Fence() <= first {
		t.Errorf("the fence %d of a resource that was forgotten is not above %d", again.Fence(), first)
	}
	poll.Until(t, "it is shown again", func() bool { there, _ := look(name(0)); return there })
	unlock(t, again)
	unlock(t, held)
	if err := root.Configure(testContext(t), WithResources(name(1))); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "only what is declared now is shown", func() bool { there, all := look(name(1)); return there && all == 1 })
}

// A resource that is forgotten while it counts as busy leaves nothing behind.
func TestForgottenResourcesAreNotBusy(t *testing.T) {
	t.Parallel()
	root := open(t, join(t, startBroker(t, "127.0.0.1:0").URL(), "root"), "t", Create(), WithOpenResources())
	root.mu.Lock()
	defer root.mu.Unlock()
	b := &root.board
	n := root.noticeOf("order")
	b.noteBusy(n, true)
	b.forget(n)
	b.swept = time.Now() // so that all is not looked at
	root.touchBusy()
	if len(b.busy) != 0 || b.resources["order"] != nil {
		t.Errorf("%d are busy", len(b.busy))
	}
}

// With time only the states of busy resources are looked at again, all of them once in a while.
func TestTimeTouchesWhatIsBusy(t *testing.T) {
	t.Parallel()
	root := open(t, join(t, startBroker(t, "127.0.0.1:0").URL(), "root"), "t", Create(), WithOpenResources())
	held := lock(t, root, "held")
	for i := range 10 {
		unlock(t, lock(t, root, fmt.Sprint("free-", i)))
	}
	touched := func(swept time.Time) (all bool, dirty []string) {
		root.mu.Lock()
		defer root.mu.Unlock()
		b := &root.board
		for _, n := range b.dirty {
			n.dirty = false
		}
		b.dirty, b.all, b.swept = nil, false, swept
		root.touchBusy()
		for _, n := range b.dirty {
			dirty = append(dirty, n.resource)
		}
		return b.all, dirty
	}
	lately := time.Now().Add(time.Hour)
	poll.Until(t, "only what is held is touched", func() bool {
		all, dirty := touched(lately)
		if all {
			t.Fatal("everything is touched each time")
		}
		return slices.Equal(dirty, []string{"held"})
	})
	if all, _ := touched(time.Time{}); !all {
		t.Error("not everything is touched after a while")
	}
	unlock(t, held)
	poll.Until(t, "nothing is", func() bool {
		_, dirty := touched(lately)
		return len(dirty) == 0
	})
}
