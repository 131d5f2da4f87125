package qosmutex

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// pass lets time go by, and what it makes due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func enter(t *testing.T, m *member) *Hold {
	t.Helper()
	h, err := m.Lock(context.Background(), "crane")
	if err != nil {
		t.Fatalf("%s: %v", m.self.ID, err)
	}
	return h
}

func leave(t *testing.T, h *Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func creator(w *world, opts ...Option) *member {
	return w.open("root", append([]Option{Create(), WithResources("crane"), WithNodePriority(0)}, opts...)...)
}

// A grant is under way to somebody who never enters: the states name no holder, and
// while the root looks for the token they say that they do not know.
func TestGrantUnderWayIsNoHolder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w)
		defer root.close()
		a, b := w.open("a"), w.open("b")
		defer b.close()
		leave(t, enter(t, b))
		a.cable.Deafen(true) // the Reply is lost
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = a.Lock(context.Background(), "crane") })
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "" || s.Status != "granted" || s.Grantee != "a" {
			t.Errorf("while a grant is under way: %+v", s)
		}
		a.kill()
		asking.Wait()
		h := enter(t, b)
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "b" || s.fence() != h.Fence() || s.Status != "held" || s.Grantee != "" {
			t.Errorf("b is inside: %+v", s)
		}
		leave(t, h)
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "" || s.Status != "free" || s.fence() != h.Fence() {
			t.Errorf("nobody is inside: %+v", s)
		}
		for _, s := range o.of("crane") {
			if s.Holder == "a" {
				t.Errorf("a was never inside: %+v", s)
			}
		}
		if falls := o.falls("crane"); len(falls) > 0 {
			t.Errorf("fences fall: %+v", falls)
		}
	})
}

// A token that went with its holder is being recovered: nobody knows where it is.
func TestStateOfATokenThatIsRecovered(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w, WithModels(models(t, "level-forward-use-use"))) // a relay may have used the token
		defer root.close()
		// A participant between the root and the holder is gone, so others are asked.
		middle := w.open("middle", WithParent("root"))
		leaf := w.open("leaf", WithParent("middle"))
		deaf := w.open("deaf", WithParent("root"))
		defer deaf.close()
		h := enter(t, leaf)
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "leaf" || s.fence() != h.Fence() {
			t.Errorf("leaf is inside: %+v", s)
		}
		leaf.kill()
		middle.kill()
		pass(1500 * time.Millisecond)
		deaf.cable.Deafen(true)       // it answers no question
		pass(1600 * time.Millisecond) // the sessions of the dead are over, that of deaf is not
		if s := o.last("crane"); s.Holder != "" || s.Status != "unknown" || s.fence() != h.Fence() {
			t.Errorf("while the token is recovered: %+v", s)
		}
		pass(10 * time.Second)
		if s := o.last("crane"); s.Status != "free" {
			t.Errorf("the token is back: %+v", s)
		}
	})
}

// The root changes as planned while a member holds the lock: the new root names who and with
// which fence, or does not know yet; never another fence.
func TestStateAfterAPlannedChangeOfRoot(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w, WithNodePriority(5))
		defer root.close()
		a := w.open("a")
		defer a.close()
		leave(t, enter(t, root))
		h := enter(t, a)
		pass(time.Second)
		successor := w.open("successor", WithNodePriority(1))
		defer successor.close()
		pass(10 * time.Second)
		if s := o.last("crane"); s.Root != "successor" || s.Holder != "a" || s.fence() != h.Fence() || s.Status != "held" {
			t.Errorf("a is inside with fence %d: %+v", h.Fence(), s)
		}
		for _, s := range o.of("crane") {
			if s.Fence == "0" || s.Holder != "" && s.fence() == 0 {
				t.Errorf("a fence that nobody has: %+v", s)
			}
		}
		if falls := o.falls("crane"); len(falls) > 0 {
			t.Errorf("fences fall: %+v", falls)
		}
		leave(t, h)
		pass(time.Second)
		if s := o.last("crane"); s.Status != "free" || s.fence() != h.Fence() {
			t.Errorf("a has left: %+v", s)
		}
	})
}

// A root was cut off and replaced while what it had to say of its last entries waited
// for a connection. It says nothing of that when it is back.
func TestFormerRootPublishesNothingLate(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w)
		defer root.close()
		var others []*member
		for i, id := range []string{"a", "b", "c"} {
			m := w.open(id, WithNodePriority(int64(i+1)))
			others = append(others, m)
			defer m.close()
		}
		pass(10 * time.Second) // they have votes
		root.cable.Cut()
		own := enter(t, root) // the lease still lasts
		pass(20 * time.Second)
		h := enter(t, others[1])
		pass(time.Second)
		now := o.last("crane")
		if now.Holder != "b" || now.fence() != h.Fence() || h.Fence() <= own.Fence() {
			t.Fatalf("b is inside with fence %d after %d: %+v", h.Fence(), own.Fence(), now)
		}
		heard := len(o.of("crane"))
		root.cable.Restore()
		pass(20 * time.Second)
		before, _ := parseEpoch(now.Epoch)
		for _, s := range o.of("crane")[heard:] { // it may be the root again, as the most important
			if epoch, _ := parseEpoch(s.Epoch); epoch.Compare(before) < 0 || s.Holder != "b" && s.Status != "unknown" || s.Fence != "" && s.fence() != h.Fence() {
				t.Errorf("published after %+v: %+v", now, s)
			}
		}
		leave(t, h)
	})
}

// A new root says of each resource what is true under it, also of one of which it has
// never heard: what a former root said stays on the broker otherwise.
func TestStateOfAResourceThatANewRootDoesNotKnow(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w, WithOpenResources())
		var others []*member
		for i, id := range []string{"a", "b", "c"} {
			m := w.open(id, WithNodePriority(int64(i+1)))
			others = append(others, m)
			defer m.close()
		}
		pass(10 * time.Second)
		if _, err := root.Lock(context.Background(), "barrow"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if s := o.last("barrow"); s.Holder != "root" {
			t.Fatalf("the root is inside: %+v", s)
		}
		root.kill()
		pass(30 * time.Second)
		leave(t, enter(t, others[1])) // there is a root
		if s := o.last("barrow"); s.Holder != "" {
			t.Errorf("the root that was inside is dead and replaced: %+v", s)
		}
	})
}

// Events that come twice or late change nothing.
func TestEventsThatComeAgainChangeNoState(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w)
		defer root.close()
		a, b := w.open("a"), w.open("b")
		defer a.close()
		defer b.close()
		h := enter(t, a)
		pass(time.Second)
		leave(t, h)
		pass(time.Second)
		o.tell(t, EventGranted, "a", h.Fence())
		if s := o.last("crane"); s.Holder != "" {
			t.Errorf("an entry that is over was told again: %+v", s)
		}
		h2 := enter(t, b)
		pass(time.Second)
		o.tell(t, EventGranted, "a", h.Fence())
		o.tell(t, EventReleased, "a", h.Fence())
		if s := o.last("crane"); s.Holder != "b" || s.fence() != h2.Fence() {
			t.Errorf("b is inside: %+v", s)
		}
		leave(t, h2)
		pass(time.Second)
		if s := o.last("crane"); s.Status != "free" {
			t.Errorf("nobody is inside: %+v", s)
		}
		if !slices.IsSortedFunc(o.of("crane"), func(a, b told) int { return cmp.Compare(a.fence(), b.fence()) }) {
			t.Errorf("fences fall: %+v", o.of("crane"))
		}
	})
}

// A new root hears of an entry that was over before the last one that its predecessor
// published: the event had waited for a connection.
func TestNewRootIsToldOfAnEarlierEntry(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w, WithNodePriority(5))
		defer root.close()
		a, b := w.open("a"), w.open("b")
		defer a.close()
		defer b.close()
		early := enter(t, a)
		leave(t, early)
		late := enter(t, b)
		pass(time.Second)
		leave(t, late)
		pass(time.Second)
		successor := w.open("successor", WithNodePriority(1))
		defer successor.close()
		pass(10 * time.Second)
		o.tell(t, EventReleased, "a", early.Fence())
		o.tell(t, EventGranted, "a", early.Fence())
		if s := o.last("crane"); s.Root != "successor" || s.Status != "free" {
			t.Errorf("nobody is inside: %+v", s)
		}
		if falls := o.falls("crane"); len(falls) > 0 {
			t.Errorf("fences fall: %+v", falls)
		}
		next := enter(t, a)
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "a" || s.fence() != next.Fence() {
			t.Errorf("a is inside again: %+v", s)
		}
		leave(t, next)
	})
}

// unconfirmed is a root whose lease the test decides on.
type unconfirmed struct{ until *atomic.Int64 }

func (m unconfirmed) Step(now protocol.Time, _ *protocol.Input, out *protocol.Output) error {
	out.Reset()
	out.WakeAt = now + protocol.Second
	return nil
}

func (m unconfirmed) Status() protocol.Status {
	return protocol.Status{
		Role: protocol.Root, Settings: protocol.Settings{Resources: []string{"crane"}},
		Resources: []protocol.ResourceStatus{{Resource: "crane", Free: true, Fence: 7}},
	}
}

func (m unconfirmed) Resource(string, int) (protocol.ResourceStatus, bool) {
	return m.Status().Resources[0], true
}
func (m unconfirmed) Overview() protocol.Status { return m.Status() }
func (m unconfirmed) ValidUntil() protocol.Time { return protocol.Never }
func (m unconfirmed) RulesUntil() protocol.Time { return protocol.Time(m.until.Load()) }

// A root without a valid lease publishes no state and does not call itself the root.
func TestRootWithoutALeasePublishesNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		events := make(chan pubsub.RawMessage, 100)
		if _, err := o.p.SubscribeRaw(t.Context(), pubsub.Main, []string{"lock", "t", "events"}, func(m pubsub.RawMessage) { events <- m }); err != nil {
			t.Fatal(err)
		}
		var until atomic.Int64
		root := w.open("root", withMachine(func(protocol.Config) (machine, error) { return unconfirmed{until: &until}, nil }))
		defer root.kill()
		seen := 0 // states so far
		silent := func(what string, rooted int) {
			t.Helper()
			pass(10 * time.Second)
			if n := len(o.of("crane")); n != seen || len(events) != rooted {
				t.Errorf("%s: %d states and %d events, want %d and %d", what, n, len(events), seen, rooted)
			}
		}
		speaks := func(what string, rooted int) {
			t.Helper()
			pass(10 * time.Second)
			// A second time, if it hears what it wrote over only after writing.
			if n := len(o.of("crane")); n == seen || n > seen+2 || o.last("crane").Root != "root" || len(events) != rooted {
				t.Errorf("%s: %d states after %d, the last %+v, and %d events, want %d", what, n, seen, o.last("crane"), len(events), rooted)
			}
			seen = len(o.of("crane"))
		}
		silent("never confirmed", 0)
		until.Store(int64(protocol.Never))
		speaks("confirmed", 1)
		until.Store(0)
		pass(2 * time.Second) // it is stepped
		o.overwrite(t)
		seen++
		silent("no longer", 1)
		until.Store(int64(protocol.Never))
		speaks("again", 2)
	})
}
