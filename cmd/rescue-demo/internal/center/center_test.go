package center_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/base"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/voter"
	"padme/pubsub"
	"padme/qosmutex"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T) scenario.Config {
	t.Helper()
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func start(t *testing.T, cfg scenario.Config) *center.Center {
	t.Helper()
	c, err := center.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCenterFoundsTheFrequenciesAndSwitchesToFair(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	c := start(t, cfg)
	p, err := pubsub.Join(t.Context(), c.URL(), "tourist", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	topic, err := qosmutex.Open(t.Context(), p, scenario.LockTopic,
		qosmutex.WithModels(cfg.Models), qosmutex.WithResources(cfg.FrequencyNames()...), qosmutex.WithTiming(scenario.Timing()))
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close(context.Background())
	if root := topic.Status().Root.ID; root != scenario.Center {
		t.Errorf("the root is %q", root)
	}
	if err := c.Fair(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); topic.Models() != cfg.FairModels(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("models %v are in force, want %v", topic.Models(), cfg.FairModels())
		}
	}
}

func TestSecondCenterIsRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Broker = start(t, cfg).URL()
	c, err := center.Start(t.Context(), cfg)
	if !errors.Is(err, pubsub.ErrDuplicateID) {
		t.Fatalf("%v, %v", c, err)
	}
}

// The center must be the root and the frequencies must be its own: it neither
// joins nor takes over what somebody else runs.
func TestCenterRefusesATopicWithAnotherRoot(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	for want, resources := range map[string][]string{
		qosmutex.ErrConflict.Error(): {"1.000"},
		"not its root":               cfg.FrequencyNames(),
	} {
		b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		p, err := pubsub.Join(t.Context(), b.URL(), "squatter", pubsub.WithDomain(scenario.Domain))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())
		topic, err := qosmutex.Open(t.Context(), p, scenario.LockTopic, qosmutex.Create(), qosmutex.WithTiming(scenario.Timing()),
			qosmutex.WithModels(cfg.Models), qosmutex.WithResources(resources...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(context.Background())
		cfg.Broker = b.URL()
		if _, err := center.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("frequencies %q in force: %v, want %q", resources, err, want)
		}
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := config(t)
	cfg.Listen = listener.Addr().String()
	if _, err := center.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), cfg.Listen) {
		t.Fatalf("%v, want an error which names %s", err, cfg.Listen)
	}
}

func TestCenterLooksAtEveryPicture(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	c := start(t, cfg)
	p, err := pubsub.Join(t.Context(), c.URL(), "robot-1", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	w, err := camera.NewWriter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitMatched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	good := camera.Shoot(cfg.Area(), area.Point{X: 100, Y: 100})
	for _, picture := range [][]byte{good, good[:len(good)/2], nil, good} {
		if err := w.Write(t.Context(), camera.Frame{Frequency: "146.520", Robot: "robot-1", Fence: 1, Picture: picture}); err != nil {
			t.Fatal(err)
		}
	}
	want := center.Frames{Received: 4, Bytes: uint64(2*len(good) + len(good)/2), Bad: 2}
	for deadline := time.Now().Add(5 * time.Second); c.Frames() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("received %+v, want %+v", c.Frames(), want)
		}
	}
}

// Under chaos the base is the first root. The center is a member, which sets the
// models, and does not become the root itself when the base dies.
func TestCenterUnderChaosOutlivesTheRoot(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	cfg.Chaos, cfg.Broker = true, b.URL()
	vote(t, cfg)
	cut := foundAt(t, cfg, b.URL())
	c := start(t, cfg)
	if err := c.Fair(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := pubsub.Join(t.Context(), b.URL(), "tourist", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	views := make(chan qosmutex.View, 1000)
	_, err = p.SubscribeRaw(t.Context(), pubsub.Main, []string{"lock", scenario.LockTopic, "view"}, func(m pubsub.RawMessage) {
		var v qosmutex.View
		if json.Unmarshal(m.Payload, &v) == nil {
			views <- v
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	voters, err := cfg.Register(p)
	if err != nil {
		t.Fatal(err)
	}
	defer voters.Close()
	member, err := qosmutex.Open(t.Context(), p, scenario.LockTopic,
		qosmutex.WithRegister(voters), qosmutex.WithTiming(scenario.Timing()), qosmutex.WithNodePriority(scenario.Priority(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close(context.Background())
	awaitFair(t, views, cfg, scenario.Base)
	cut()
	awaitFair(t, views, cfg, "tourist")
}

// vote runs the voters until the end of the test.
func vote(t *testing.T, cfg scenario.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	var all sync.WaitGroup
	for _, name := range cfg.Voters() {
		all.Go(func() {
			if err := voter.Run(ctx, voter.Config{URL: cfg.Broker, Name: name, Voters: cfg.Voters(), Dir: dir}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

// foundAt runs a base until the end of the test. Once it is cut off, nobody hears of
// it any more, as if it had been killed.
func foundAt(t *testing.T, cfg scenario.Config, url string) (cut func()) {
	t.Helper()
	wire, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			near, err := wire.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(url, "mqtt://"))
			if err != nil {
				near.Close()
				continue
			}
			mu.Lock()
			open = append(open, near, far)
			mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				pumps.Go(func() {
					io.Copy(way[0], way[1])
					way[0].Close()
				})
			}
		}
	})
	cut = sync.OnceFunc(func() {
		wire.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- base.Run(ctx, base.Config{Scenario: cfg, URL: "mqtt://" + wire.Addr().String()})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cut()
		pumps.Wait()
	})
	return cut
}

// awaitFair returns when fair is in force under the given root.
func awaitFair(t *testing.T, views <-chan qosmutex.View, cfg scenario.Config, root string) {
	t.Helper()
	patience := time.After(15 * time.Second)
	for {
		select {
		case v := <-views:
			if v.Root == root && v.Models == cfg.FairModels().String() {
				return
			}
		case <-patience:
			t.Fatalf("no view of %s with models %v", root, cfg.FairModels())
		}
	}
}

func TestCenterRefusesFramesWithAnOldFence(t *testing.T) {
	t.Parallel()
	c := start(t, config(t))
	p, err := pubsub.Join(t.Context(), c.URL(), "robot-1", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	w, err := camera.NewWriter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitMatched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []uint64{3, 3, 5, 4, 5, 6} {
		if err := w.Write(t.Context(), camera.Frame{Frequency: "146.520", Robot: "robot-1", Fence: fence}); err != nil {
			t.Fatal(err)
		}
	}
	want := center.Frames{Received: 5, Bad: 5, Refused: 1}
	for deadline := time.Now().Add(5 * time.Second); c.Frames() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("received %+v, want %+v", c.Frames(), want)
		}
	}
}

// A killed center says no goodbye, what needs it waits for its return, and what it
// had sent still counts.
func TestKilledCenterComesBack(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	c := start(t, cfg)
	p, err := pubsub.Join(t.Context(), c.URL(), "tourist", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	presence := make(chan pubsub.Presence, 100)
	watching, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		for peer, err := range p.Peers(watching) {
			if err == nil && peer.ID == scenario.Center {
				presence <- peer
			}
		}
	})
	next := func(alive bool) pubsub.Presence {
		for patience := time.After(15 * time.Second); ; {
			select {
			case peer := <-presence:
				if peer.Alive == alive {
					return peer
				}
			case <-patience:
				t.Fatalf("no presence of the center that says alive: %v", alive)
			}
		}
	}
	first := next(true)
	sent := c.Messages()
	c.Kill()
	c.Kill() // it is dead already
	if !c.Dead() || c.Messages() < sent || c.Err() != nil {
		t.Errorf("dead %v, %d messages after %d, %v", c.Dead(), c.Messages(), sent, c.Err())
	}
	next(false)
	fair := make(chan error, 1)
	go func() { fair <- c.Fair(t.Context()) }()
	if err := c.Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-fair; err != nil || c.Dead() {
		t.Errorf("dead %v, %v", c.Dead(), err)
	}
	if again := next(true); again.Incarnation <= first.Incarnation {
		t.Errorf("incarnation %d after %d", again.Incarnation, first.Incarnation)
	}
}

func TestBrokerIsStartedAgainAtTheSameAddresses(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.WebSocket = "127.0.0.1:0"
	c := start(t, cfg)
	reachable := func(url string) bool {
		_, addr, _ := strings.Cut(url, "://")
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	for _, url := range []string{c.URL(), c.WebSocket()} {
		if !reachable(url) {
			t.Errorf("nobody is at %s", url)
		}
	}
	if err := c.StopBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reachable(c.URL()) || reachable(c.WebSocket()) {
		t.Error("it was not stopped")
	}
	if err := c.StartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !reachable(c.URL()) || !reachable(c.WebSocket()) {
		t.Error("it is not where it was")
	}
	if err := c.Fair(t.Context()); err != nil { // once the center is connected again
		t.Error(err)
	}
}
