package centre_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/centre"
	"padme/cmd/rescue-demo/internal/scenario"
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

func start(t *testing.T, cfg scenario.Config) *centre.Centre {
	t.Helper()
	c, err := centre.Start(t.Context(), cfg)
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

func TestCentreFoundsTheFrequenciesAndSwitchesToFair(t *testing.T) {
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
	if root := topic.Status().Root.ID; root != scenario.Centre {
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

func TestSecondCentreIsRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Broker = start(t, cfg).URL()
	c, err := centre.Start(t.Context(), cfg)
	if !errors.Is(err, pubsub.ErrDuplicateID) {
		t.Fatalf("%v, %v", c, err)
	}
}

// The centre must be the root and the frequencies must be its own: it neither
// joins nor takes over what somebody else runs.
func TestCentreRefusesATopicWithAnotherRoot(t *testing.T) {
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
		topic, err := qosmutex.Open(t.Context(), p, scenario.LockTopic, qosmutex.Found(), qosmutex.WithTiming(scenario.Timing()),
			qosmutex.WithModels(cfg.Models), qosmutex.WithResources(resources...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(context.Background())
		cfg.Broker = b.URL()
		if _, err := centre.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
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
	if _, err := centre.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), cfg.Listen) {
		t.Fatalf("%v, want an error which names %s", err, cfg.Listen)
	}
}

func TestCentreLooksAtEveryPicture(t *testing.T) {
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
	want := centre.Frames{Received: 4, Bytes: uint64(2*len(good) + len(good)/2), Bad: 2}
	for deadline := time.Now().Add(5 * time.Second); c.Frames() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("received %+v, want %+v", c.Frames(), want)
		}
	}
}
