package qosmutex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/register/local"
	"padme/tests/poll"
)

// serveTopics runs a server until stop.
func serveTopics(t *testing.T, p *pubsub.Participant, opts ...Option) (stop func()) {
	t.Helper()
	server, err := NewServer(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	s := newServer(t, p, append(opts, Create())...)
	go func() { ended <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.Close()
	})
}

// TestConfigureWhileInUse takes a resource from a topic that one member holds and another
// waits for, and gives it back.
func TestConfigureWhileInUse(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	states := subscribe(t, join(t, url, "plain"), "lock", "t", "crane", "state")
	_, members := group(t, url, "t", 2)
	a, b := members[0], members[1]
	h := lock(t, a, "crane")
	refused := make(chan error, 1)
	go func() {
		_, err := b.Lock(testContext(t), "crane")
		refused <- err
	}()
	poll.Until(t, "b waits", func() bool { return len(b.callsNow()) == 1 })
	if err := b.Configure(testContext(t), WithResources("truck", "ship"), WithModels(Models{Priority: Fair})); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, ErrUndeclared) {
		t.Errorf("who waited for what is not declared any more: %v", err)
	}
	if v := b.View(); !slices.Equal(v.Resources, []string{"ship", "truck"}) || v.ResourcesBy != "b" || v.Models != "fair-forward-forward-forward" || v.ModelsBy != "b" || v.Root != "root" {
		t.Errorf("View = %+v", v)
	}
	poll.Until(t, "a knows it", func() bool { return len(a.Resources()) == 2 && a.Resources()[0] == "ship" })
	if _, err := a.Lock(testContext(t), "crane"); !errors.Is(err, ErrUndeclared) || !strings.Contains(err.Error(), "pubsub-node lock configure t") {
		t.Errorf("Lock of what is not declared any more = %v", err)
	}
	unlock(t, lock(t, b, "ship"))
	time.Sleep(quick().TTL * 3 / 2) // the session has been renewed since
	if err := h.Check(); err != nil {
		t.Errorf("the hold of what is not declared any more: %v", err)
	}
	unlock(t, h)
	poll.Until(t, "its state is cleared", func() bool {
		all := states.now()
		return len(all) > 0 && len(all[len(all)-1].Payload) == 0
	})
	if err := a.Configure(testContext(t), WithResources("crane")); err != nil {
		t.Fatal(err)
	}
	again := lock(t, a, "crane")
	if again.Fence() <= h.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), h.Fence())
	}
	unlock(t, again)
}

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	root, _ := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 0)
	long := make([]string, 600)
	for i := range long {
		long[i] = fmt.Sprintf("%0120d", i)
	}
	for name, opts := range map[string][]Option{
		"nothing":            nil,
		"the TTL":            {WithTiming(Local())},
		"no setting":         {WithModels(Models{}), WithNodePriority(1)},
		"no resource":        {WithResources()},
		"more than a record": {WithResources(long...)},
	} {
		if err := root.Configure(testContext(t), opts...); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: Configure = %v", name, err)
		}
		if err := root.Declare(testContext(t), opts...); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: Declare = %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := root.Configure(ctx, WithModels(Models{Priority: Aging})); err != nil && !errors.Is(err, ErrCanceled) {
		t.Errorf("Configure with a context that is over = %v", err)
	}
}

// A conflict names who asks for what, who declared what, and the command that settles it.
func TestConflictNamesTheCommand(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "my crane", 1, WithModels(Models{Priority: Fair}))
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{
			WithModels(Models{Priority: Aging}),
			`lock topic "my crane": "a" asks for models aging-forward-forward-forward, but fair-forward-forward-forward are in force, as "root" declared: ` +
				`leave the option out to take those, or put yours in their place with: pubsub-node lock configure 'my crane' --models aging-forward-forward-forward`,
		},
		{
			WithResources("x", "y"),
			`"a" asks for resources ["x" "y"], but ["crane" "truck"] are in force, as "root" declared: ` +
				`leave the option out to take those, or put yours in their place with: pubsub-node lock configure 'my crane' --resources x,y`,
		},
	} {
		if err := members[0].Declare(testContext(t), c.opt); !errors.Is(err, ErrConflict) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("Declare = %v\nwant     %s", err, c.want)
		}
	}
	if err := members[0].Declare(testContext(t), WithModels(Models{Priority: Fair})); err != nil {
		t.Errorf("Declare of what is in force = %v", err)
	}
	if m := root.Models(); m.Priority != Fair {
		t.Errorf("models %v", m)
	}
}

// What a server is given is a default of the topics that it creates. A TTL that the first
// participant wants is theirs, and no later server takes offense at it.
func TestServerGivesDefaults(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	register := local.Memory()
	fair := Models{Priority: Fair}
	stop := serveTopics(t, join(t, url, "server"), WithRegister(register), WithTiming(quick()), WithModels(fair), WithResources("x", "y"))
	p := join(t, url, "p")
	slow := quick().WithTTL(2 * time.Second)
	var topic *Topic
	poll.Until(t, "the server has created it", func() bool {
		var err error
		topic, err = Open(testContext(t), p, "t", WithTiming(slow))
		return err == nil
	})
	if v := topic.View(); v.TTL != 2 || v.Models != fair.String() || !slices.Equal(v.Resources, []string{"x", "y"}) || v.Open || v.ModelsBy+v.ResourcesBy != "" {
		t.Errorf("View = %+v", v)
	}
	unlock(t, lock(t, topic, Any))
	if err := topic.Declare(testContext(t), WithResources("z")); err != nil {
		t.Errorf("a declaration in the place of the default = %v", err)
	}
	stop()
	defer serveTopics(t, join(t, url, "successor"), WithRegister(register), WithTiming(quick()), WithResources("other"))()
	unlock(t, lock(t, topic, "z"))
	if v := topic.View(); v.Root != "successor" || v.TTL != 2 {
		t.Errorf("View = %+v", v)
	}
	closeTopic(t, topic)
}

// Of a topic that nobody declared, every name is a resource: that of the topic itself is
// refused, because somebody means the lock that "pubsub-node lock" takes, and others are
// warned of.
func TestNamesThatNobodyDeclared(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	defer serveTopics(t, join(t, url, "server"), WithTiming(quick()))()
	var said bytes.Buffer
	p := join(t, url, "p")
	var topic *Topic
	poll.Until(t, "the server has created it", func() bool {
		var err error
		topic, err = Open(testContext(t), p, "crane", WithTiming(quick()), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
		return err == nil
	})
	_, err := topic.Lock(testContext(t), "crane")
	if !errors.Is(err, ErrUndeclared) || !strings.Contains(err.Error(), `"default"`) || !strings.Contains(err.Error(), "pubsub-node lock create crane --resources crane") {
		t.Errorf("Lock of the topic's own name = %v", err)
	}
	if w := topic.Warning("hook"); !strings.Contains(w, `"hook"`) || !strings.Contains(w, "pubsub-node lock create crane --open; if these are all, with --resources default,hook") {
		t.Errorf("Warning = %q", w)
	}
	if w := topic.Warning(DefaultResource); w != "" {
		t.Errorf("Warning of the default resource = %q", w)
	}
	for range 2 {
		unlock(t, lock(t, topic, "hook"))
		unlock(t, lock(t, topic, DefaultResource))
	}
	unlock(t, lock(t, topic, "rope")) // a program may have thousands of names
	if err := topic.Declare(testContext(t), WithOpenResources()); err != nil {
		t.Fatal(err)
	}
	unlock(t, lock(t, topic, "crane"))
	if w := topic.Warning("hook"); w != "" {
		t.Errorf("Warning of a name that is declared to be one = %q", w)
	}
	closeTopic(t, topic)
	if n := strings.Count(said.String(), "hook"); n == 0 || strings.Count(said.String(), "level=WARN") != 1 {
		t.Errorf("logged: %s", &said)
	}
}
