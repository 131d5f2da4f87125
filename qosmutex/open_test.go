package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/poll"
)

func TestOpenWithoutRootSaysWhatToDo(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p := join(t, url, "a")
	_, err := Open(t.Context(), p, "crane", WithTiming(quick()))
	remedy := `has no root: start one with "pubsub-node broker", at another broker with "pubsub-node serve crane", or Open with qosmutex.Create`
	want := `qosmutex: lock topic "crane" on ` + url + ` ` + remedy
	if !errors.Is(err, ErrNoRoot) || err.Error() != want {
		t.Errorf("Open = %v\nwant   %s", err, want)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Open(short, p, "crane", WithTiming(quick()))
	want = `qosmutex: timed out while waiting for a place in lock topic "crane" on ` + url + `: it ` + remedy + `: context deadline exceeded`
	if !errors.Is(err, ErrNoRoot) || !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
		t.Errorf("Open = %v\nwant   %s", err, want)
	}
	// Nothing is left of it: the same topic can be created now.
	unlock(t, lock(t, open(t, p, "crane", Create(), WithOpenResources()), "x"))
}

func TestOpenNeedsAPresence(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a", pubsub.Unannounced())
	if _, err := Open(testContext(t), p, "t"); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "Dial") {
		t.Errorf("Open = %v", err)
	}
}

// A context with a deadline says for how long a root may be missing.
func TestOpenWaitsForTheCreation(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	created := make(chan struct{})
	a, b := join(t, url, "a"), join(t, url, "b")
	time.AfterFunc(leastPatience*5/4, func() {
		defer close(created)
		open(t, a, "t", Create(), WithResources("x"))
	})
	unlock(t, lock(t, open(t, b, "t"), "x"))
	<-created
}

// Words of the contract are no names of lock topics, but for servers among themselves.
func TestOpenRefusesWordsOfTheContract(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a")
	s := newServer(t, p)
	defer s.Close()
	for _, name := range append([]string{servedBy, "+", "#"}, reserved...) {
		if topic, err := Open(testContext(t), p, name, Create(), WithOpenResources()); !errors.Is(err, ErrInvalidName) {
			t.Errorf("Open %q = %v", name, err)
			_ = topic.Close(t.Context())
		}
		if _, err := s.Topic(testContext(t), name); errors.Is(err, ErrInvalidName) == (name == servedBy) {
			t.Errorf("Server.Topic %q = %v", name, err)
		}
	}
}

// A member that its parent does not take is told so.
func TestOpenSaysThatTheParentIsMissing(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	group(t, url, "t", 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Open(ctx, join(t, url, "b"), "t", WithTiming(quick()), WithParent("nobody"))
	if !errors.Is(err, ErrTimeout) || errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), `"nobody" does not take this member`) {
		t.Errorf("Open = %v", err)
	}
}

// No server creates a topic with such a TTL, so a member must not have it created with another.
func TestOpenRefusesATTLThatNoServerGives(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a")
	for _, ttl := range []time.Duration{MaxTTL + time.Second, 24 * time.Hour} {
		_, err := Open(testContext(t), p, "t", WithTiming(LAN().WithTTL(ttl)))
		if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "TTL of "+ttl.String()) || !strings.Contains(err.Error(), MaxTTL.String()) {
			t.Errorf("Open with a TTL of %v = %v", ttl, err)
		}
	}
	open(t, p, "long", Create(), WithOpenResources(), WithTiming(LAN().WithTTL(time.Hour))) // which needs no server
}

// A TTL that is too short for a server may be in force, and is refused only where it is not.
func TestConflictNamesTheLeastTTL(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	group(t, url, "t", 0)
	_, err := Open(testContext(t), join(t, url, "b"), "t", WithTiming(Local().WithTTL(400*time.Millisecond)))
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "no server gives less than 500ms") {
		t.Errorf("Open = %v", err)
	}
}

func TestConflictsNameBothValues(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	in := models(t, "FRUU")
	root, _ := group(t, url, "t", 0, WithModels(in))
	for _, c := range []struct {
		opts []Option
		both [2]string
	}{
		{[]Option{WithModels(Models{})}, [2]string{"level-forward-forward-forward", "fair-replace-use-use"}},
		{[]Option{WithResources("ship")}, [2]string{`["ship"]`, `["crane" "truck"]`}},
		{[]Option{WithResources("crane", "truck"), WithOpenResources()}, [2]string{"and any other", `["crane" "truck"]`}},
		{[]Option{WithTiming(Local())}, [2]string{"1s", "1.2s"}},
	} {
		p := join(t, url, "b")
		_, err := Open(testContext(t), p, "t", append([]Option{WithTiming(quick())}, c.opts...)...)
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), c.both[0]) || !strings.Contains(err.Error(), c.both[1]) {
			t.Errorf("Open = %v, want ErrConflict that names %q", err, c.both)
		}
		p.Close(testContext(t))
	}
	same := open(t, join(t, url, "c"), "t", WithModels(in), WithResources("truck", "crane"))
	if same.Models() != in || len(same.Resources()) != 2 {
		t.Errorf("in force: %v %v", same.Models(), same.Resources())
	}
	unlock(t, lock(t, root, "crane"))
}

func TestBadOptionsAndNames(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a")
	bad := quick()
	bad.Heartbeat = bad.TTL
	for _, c := range []struct {
		name string
		opt  Option
		want error
	}{
		{"t", WithTiming(bad), ErrInvalidConfig},
		{"t", WithFanout(0), ErrInvalidConfig},
		{"t", WithModels(Models{Priority: 9}), ErrInvalidConfig},
		{"t", WithClock(nil), ErrInvalidConfig},
		{"t", Resume(), ErrInvalidConfig},
		{"t", WithParent("a"), ErrInvalidConfig},
		{"t", WithParent(""), ErrInvalidName},
		{"t", WithResources("ok", "*"), ErrInvalidName},
		{"t", WithResources("join"), ErrInvalidName},
		{"t", WithResources("+"), ErrInvalidName},
		{"", Create(), ErrInvalidName},
		{"yard/b", Create(), ErrInvalidName}, // pubsub-node takes it for resource b of yard
		{strings.Repeat("x", 125), Create(), ErrInvalidName},
		{"a\x01", Create(), ErrInvalidName},
	} {
		if topic, err := Open(testContext(t), p, c.name, c.opt); !errors.Is(err, c.want) {
			t.Errorf("Open(%.10q) = %v, %v; want %v", c.name, topic, err, c.want)
		}
	}
	topic := open(t, p, "good", Create(), WithResources("ok"))
	if err := topic.Do(testContext(t), "ok", nil); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("Do with nothing to do = %v", err)
	}
	if err := topic.Configure(testContext(t), WithResources("*")); !errors.Is(err, ErrInvalidName) || errors.Is(err, ErrInvalidConfig) {
		t.Errorf("Configure = %v", err)
	}
}

func TestOpenHonorsItsContext(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a")
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	unreachable := &cutRegister{Register: local.Memory()}
	unreachable.cut.Store(true)
	if _, err := Open(ctx, p, "t", Create(), WithRegister(unreachable)); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open = %v, want ErrTimeout", err)
	}
}

func TestConfigureReachesAll(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2)
	for i, m := range append([]Models{{Release: Retain}, {Release: Direct}}, protocol.AllModels()...) {
		topic := append(members, root)[i%3]
		if err := topic.Configure(testContext(t), WithModels(m)); err != nil {
			t.Fatal(err)
		}
		if topic.Models() != m {
			t.Fatalf("%v in force, want %v", topic.Models(), m)
		}
	}
	last := models(t, "FRUU")
	for _, topic := range append(members, root) {
		poll.Until(t, "the last models are in force everywhere", func() bool { return topic.Models() == last })
	}
	contend(t, append(members, root), 20, &guarded{})
	if err := root.Configure(testContext(t), WithModels(Models{Reply: 7})); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("Configure = %v", err)
	}
}

func TestSetPriorityMovesWaitingRequests(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2)
	h := lock(t, root, "crane")
	order := make(chan string, 2)
	for _, m := range members {
		go func() {
			h := lock(t, m, "crane")
			order <- m.self.ID
			unlock(t, h)
		}()
		poll.Until(t, "it waits", func() bool { return len(m.callsNow()) == 1 })
	}
	poll.Until(t, "two wait", func() bool { return waitingAt(root, "crane") == 2 })
	if err := members[1].SetPriority(5); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "b is first", func() bool {
		q := root.Status().Resources[0].Queue
		return len(q) == 2 && q[0].ID.Node.ID == "b" && q[0].Priority == 5
	})
	unlock(t, h)
	if first, second := <-order, <-order; first != "b" || second != "a" {
		t.Errorf("order %s, %s", first, second)
	}
}

func TestManyTopicsAndAny(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p, q := join(t, url, "p"), join(t, url, "q")
	one := open(t, p, "one", Create(), WithResources("x", "y"))
	two := open(t, q, "two", Create(), WithResources("x", "y"))
	there, back := open(t, q, "one"), open(t, p, "two")
	for _, topic := range []*Topic{one, two, there, back} {
		a, b := lock(t, topic, Any), lock(t, topic, Any)
		if a.Resource() == b.Resource() {
			t.Errorf("%s: Any gave %q twice", topic.Name(), a.Resource())
		}
		unlock(t, a)
		unlock(t, b)
	}
}

func TestServerCreatesOnDemand(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	ctx, cancel := context.WithCancel(testContext(t))
	served := make(chan error, 1)
	server := newServer(t, join(t, url, "host"), WithRegister(local.Memory()), WithTiming(quick()))
	t.Cleanup(server.Close)
	go func() { served <- server.Run(ctx) }()
	a, b := join(t, url, "a"), join(t, url, "b")
	poll.Until(t, "the server listens", func() bool {
		topic, err := Open(testContext(t), a, "ping", WithTiming(quick()))
		if err != nil {
			return false
		}
		closeTopic(t, topic)
		return true
	})
	var x *Topic
	poll.Until(t, "the server has created it", func() (ok bool) { // which may take longer than Open listens
		var err error
		x, err = Open(testContext(t), a, "t", WithTiming(quick()))
		return err == nil
	})
	t.Cleanup(func() { closeTopic(t, x) })
	y := open(t, b, "t")
	contend(t, []*Topic{x, y}, 20, &guarded{})
	if x.Status().Root.ID != "host" {
		t.Errorf("root %v", x.Status().Root)
	}
	closeTopic(t, x)
	closeTopic(t, y)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// A candidate whose register does not answer, and that hears of no root, is told so.
func TestOpenWithoutRegisterAndRootGivesUp(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	reg := &cutRegister{Register: local.Memory()}
	reg.cut.Store(true)
	_, err := Open(t.Context(), join(t, url, "a"), "crane", WithRegister(reg), WithTiming(quick()))
	if !errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), "its register does not answer") || !strings.Contains(err.Error(), "v1") {
		t.Errorf("Open = %v, want one that says which voter is missing", err)
	}
}

// TestDeclarationsReplaceDefaults opens a topic that a broker's lock node made by
// default. The first to declare resources, and the first to declare models, get what they
// ask for, whoever the root is; later ones are told who declared what is in force.
func TestDeclarationsReplaceDefaults(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	register := local.Memory()
	serve := func(id string) (stop func()) {
		p := join(t, url, id)
		ctx, cancel := context.WithCancel(testContext(t))
		ended := make(chan error, 1)
		s := newServer(t, p, WithRegister(register), WithTiming(quick()))
		go func() { ended <- s.Run(ctx) }()
		return func() {
			cancel()
			s.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve("broker")
	in := models(t, "fair-forward-forward-forward")
	a := open(t, join(t, url, "a"), "t")
	unlock(t, lock(t, a, "anything"))
	b := open(t, join(t, url, "b"), "t", WithResources("x", "y"))
	c := open(t, join(t, url, "c"), "t", WithModels(in), WithResources("y", "x"))
	if got := c.Resources(); c.Models() != in || !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("in force: %v %q", c.Models(), got)
	}
	h := lock(t, b, Any)
	if _, err := a.Lock(testContext(t), "anything"); !errors.Is(err, ErrUndeclared) {
		t.Errorf("Lock of what was not declared = %v", err)
	}
	unlock(t, h)
	stop()
	defer serve("successor")() // whose defaults replace nothing
	p := join(t, url, "d")
	for by, opt := range map[string]Option{"b": WithResources("z"), "c": WithModels(Models{})} {
		if _, err := Open(testContext(t), p, "t", WithTiming(quick()), opt); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), fmt.Sprintf("as %q declared", by)) {
			t.Errorf("Open = %v, want ErrConflict that names %s", err, by)
		}
	}
}
