package papers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/tests/brokers"
	"padme/tests/bubble"
)

func TestAlgorithms(t *testing.T) {
	if _, err := AlgorithmNamed("padmé"); !errors.Is(err, qosmutex.ErrInvalidConfig) {
		t.Errorf("%v", err)
	}
	seen := map[string]bool{}
	for _, a := range Algorithms() {
		if b, err := AlgorithmNamed(a.Name); err != nil || b.Name != a.Name || seen[a.Name] {
			t.Errorf("%q: %v", a.Name, err)
		}
		if seen[a.Name] = true; a.Source == "" || a.Messages == "" || a.Delay == "" || a.Assumes == "" || a.Crash == "" {
			t.Errorf("%q says too little of itself: %+v", a.Name, a)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	p := join(t, brokers.Use(t), "a")
	good := Config{Algorithm: classic.Central, Members: []string{"a", "b"}, Resources: []string{"crane"}}
	for what, c := range map[string]struct {
		topic  string
		change func(*Config)
		want   error
	}{
		"PADME":                 {"yard", func(c *Config) { c.Algorithm = padme.Algorithm }, qosmutex.ErrInvalidConfig},
		"no algorithm":          {"yard", func(c *Config) { c.Algorithm = protocol.Algorithm{} }, qosmutex.ErrInvalidConfig},
		"no members":            {"yard", func(c *Config) { c.Members = nil }, qosmutex.ErrInvalidConfig},
		"members without it":    {"yard", func(c *Config) { c.Members = []string{"b", "c"} }, qosmutex.ErrInvalidConfig},
		"a member twice":        {"yard", func(c *Config) { c.Members = []string{"a", "a"} }, qosmutex.ErrInvalidConfig},
		"a member without name": {"yard", func(c *Config) { c.Members = []string{"a", ""} }, qosmutex.ErrInvalidName},
		"a negative hop":        {"yard", func(c *Config) { c.Hop = -1 }, qosmutex.ErrInvalidConfig},
		"resource Any":          {"yard", func(c *Config) { c.Resources = []string{"*"} }, qosmutex.ErrInvalidName},
		"a topic without name":  {"", func(*Config) {}, qosmutex.ErrInvalidName},
		"a topic with a slash":  {"yard/crane", func(*Config) {}, qosmutex.ErrInvalidName},
	} {
		cfg := good
		c.change(&cfg)
		if topic, err := Open(p, c.topic, cfg); topic != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", what, topic, err)
		}
	}
	if _, err := Open(nil, "yard", good); !errors.Is(err, qosmutex.ErrInvalidConfig) {
		t.Errorf("without a participant: %v", err)
	}
	open(t, p, "yard", good)
	if _, err := Open(p, "yard", good); !errors.Is(err, qosmutex.ErrInvalidConfig) {
		t.Errorf("opened twice: %v", err)
	}
}

func TestOpenRefusesAClockThatWasNotSet(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) { // the year is 2000
		_, err := Open(new(pubsub.Participant), "yard", Config{Algorithm: classic.Central})
		if !errors.Is(err, qosmutex.ErrInvalidConfig) || !strings.Contains(err.Error(), "the wall clock says 2000") {
			t.Errorf("%v", err)
		}
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	topic := openMember(t, join(t, brokers.Use(t), "a"), classic.Central, []string{"a"})
	h := lock(t, topic, "crane")
	for what, c := range map[string]struct {
		resource string
		option   qosmutex.LockOption
		want     error
	}{
		"Any":                      {qosmutex.Any, qosmutex.WithPriority(1), qosmutex.ErrUnsupported},
		"an undeclared resource":   {"ship", qosmutex.WithPriority(1), qosmutex.ErrUndeclared},
		"a name that is none":      {"a\x00b", qosmutex.WithPriority(1), qosmutex.ErrInvalidName},
		"a note":                   {"truck", qosmutex.WithNote(nil), qosmutex.ErrUnsupported},
		"a client that is no text": {"truck", qosmutex.WithClient("\xff"), qosmutex.ErrInvalidName},
		"a deadline of yesterday":  {"truck", qosmutex.WithDeadline(time.Now().Add(-time.Hour)), qosmutex.ErrDeadlineMissed},
		"a deadline that passes":   {"crane", qosmutex.WithDeadline(time.Now().Add(50 * time.Millisecond)), qosmutex.ErrDeadlineMissed},
	} {
		if _, err := topic.Lock(testContext(t), c.resource, c.option); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if _, err := topic.TryLock(testContext(t), "crane"); !errors.Is(err, qosmutex.ErrBusy) {
		t.Errorf("TryLock of a resource that is taken: %v", err)
	}
	unlock(t, h)
	if _, err := topic.TryLock(testContext(t), "crane"); err != nil {
		t.Errorf("TryLock of a resource that is free: %v", err)
	}
}

func TestCanceledLockLeavesNothing(t *testing.T) {
	t.Parallel()
	topics := trioOf(t, brokers.Use(t), classic.Central)
	h := lock(t, topics[0], "crane")
	cause := errors.New("no time")
	ctx, cancel := context.WithTimeoutCause(testContext(t), 30*time.Millisecond, cause)
	defer cancel()
	if _, err := topics[1].Lock(ctx, "crane"); !errors.Is(err, qosmutex.ErrTimeout) || !errors.Is(err, cause) {
		t.Errorf("Lock = %v, want ErrTimeout and the cause", err)
	}
	if _, err := topics[1].Lock(ctx, "crane"); !errors.Is(err, qosmutex.ErrTimeout) {
		t.Errorf("Lock = %v, want ErrTimeout", err)
	}
	if n := topics[1].Status().Resources[0].Waiting; n != 0 || len(topics[1].calls) != 0 {
		t.Errorf("%d wait, and %d calls are left", n, len(topics[1].calls))
	}
	unlock(t, h)
	unlock(t, lock(t, topics[2], "crane"))
}

func TestUnlockTwice(t *testing.T) {
	t.Parallel()
	topics := trioOf(t, brokers.Use(t), classic.RicartAgrawala)
	first := lock(t, topics[1], "crane")
	ctx := first.Context()
	if err := first.Check(); err != nil || ctx.Err() != nil || first.Remaining() < time.Hour {
		t.Fatalf("%v, %v, %v", err, ctx.Err(), first.Remaining())
	}
	unlock(t, first)
	second := lock(t, topics[0], "crane")
	for what, err := range map[string]error{"Unlock": first.Unlock(), "Check": first.Check(), "Context": context.Cause(ctx)} {
		if !errors.Is(err, qosmutex.ErrReleased) {
			t.Errorf("%s = %v, want ErrReleased", what, err)
		}
	}
	if err := second.Check(); err != nil {
		t.Errorf("the second Unlock of the first hold freed the next: %v", err)
	}
	if first.Topic() != "yard" || first.Resource() != "crane" || second.Fence() <= first.Fence() {
		t.Errorf("%q %q, fence %d after %d", first.Topic(), first.Resource(), second.Fence(), first.Fence())
	}
}

// Requests of Ask are served by priority, and one is raised while it waits.
func TestMoreImportantRequestsFirst(t *testing.T) {
	t.Parallel()
	topic := trioOf(t, brokers.Use(t), classic.Central)[1]
	h := lock(t, topic, "crane")
	ask := func(priority int64) *qosmutex.Request {
		r, err := topic.Ask("crane", qosmutex.WithPriority(priority))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	late, early := ask(50), ask(20)
	if err := late.SetPriority(60); !errors.Is(err, qosmutex.ErrInvalidConfig) {
		t.Errorf("a less important priority: %v", err)
	}
	if err := late.SetPriority(10); err != nil {
		t.Fatal(err)
	}
	if late.Decided() || early.Decided() {
		t.Error("decided while it is held")
	}
	unlock(t, h)
	for _, r := range []*qosmutex.Request{late, early} {
		h, err := r.Wait(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if r == late && (h.Priority() != 10 || early.Decided()) {
			t.Errorf("priority %d first, the other decided: %v", h.Priority(), early.Decided())
		}
		unlock(t, h)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	topic := openMember(t, join(t, brokers.Use(t), "a"), classic.TokenRing, []string{"a"})
	type key struct{}
	boom := errors.New("boom")
	err := topic.Do(context.WithValue(testContext(t), key{}, 1), "crane", func(ctx context.Context, h *qosmutex.Hold) error {
		if ctx.Value(key{}) != 1 || h.Check() != nil {
			t.Errorf("%v, %v", ctx.Value(key{}), h.Check())
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("Do = %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = topic.Do(testContext(t), "crane", func(context.Context, *qosmutex.Hold) error { panic(boom) })
	}()
	unlock(t, lock(t, topic, "crane"))
}

func TestCloseReleasesAndWithdraws(t *testing.T) {
	t.Parallel()
	topics := trioOf(t, brokers.Use(t), classic.Central)
	crane, truck := lock(t, topics[1], "crane"), lock(t, topics[2], "truck")
	blocked, err := topics[1].Ask("truck")
	if err != nil {
		t.Fatal(err)
	}
	closeTopic(t, topics[1])
	if _, err := blocked.Wait(testContext(t)); !errors.Is(err, qosmutex.ErrClosed) {
		t.Errorf("a waiting request: %v", err)
	}
	if err := crane.Check(); !errors.Is(err, qosmutex.ErrReleased) {
		t.Errorf("Check = %v, want ErrReleased", err)
	}
	if _, err := topics[1].Lock(testContext(t), "crane"); !errors.Is(err, qosmutex.ErrClosed) || !errors.Is(topics[1].Err(), qosmutex.ErrClosed) {
		t.Errorf("Lock = %v, Err = %v", err, topics[1].Err())
	}
	if err := topics[1].SetPriority(3); !errors.Is(err, qosmutex.ErrClosed) {
		t.Errorf("SetPriority = %v", err)
	}
	closeTopic(t, topics[1])
	unlock(t, truck)
	unlock(t, lock(t, topics[0], "crane"))
	unlock(t, lock(t, topics[0], "truck"))
}

// What ends with its participant is lost, and nothing goes on running.
func TestParticipantThatEndsEndsItsTopics(t *testing.T) {
	t.Parallel()
	p, err := pubsub.Join(testContext(t), brokers.Use(t), "a", pubsub.WithDomain(brokers.Domain(t)))
	if err != nil {
		t.Fatal(err)
	}
	topic, err := Open(p, "yard", Config{Algorithm: classic.Central, Members: []string{"a"}, AnyResource: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := lock(t, topic, "crane")
	waits, err := topic.Ask("crane")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	<-topic.Done()
	if _, err := waits.Wait(testContext(t)); !errors.Is(err, qosmutex.ErrClosed) || !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("a waiting request: %v", err)
	}
	if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) || !errors.Is(context.Cause(h.Context()), qosmutex.ErrLost) {
		t.Errorf("Unlock = %v, the cause %v", err, context.Cause(h.Context()))
	}
	closeTopic(t, topic)
	if _, err := Open(p, "yard", topic.cfg); !errors.Is(err, qosmutex.ErrClosed) {
		t.Errorf("Open after the end: %v", err)
	}
}
