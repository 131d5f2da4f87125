package brokers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
)

// suite is what the tests of one process share. RabbitMQ and NATS take too long
// to start for every test: there is one of them, and each test that asks for a
// broker gets a domain of its own there.
var suite struct {
	mu      sync.Mutex
	shared  *Server
	err     error
	dir     string
	domains map[string]string // by test
	count   int
	ran     map[string]bool   // tests that ran on the chosen broker
	stayed  map[string]string // tests that did not, and why
}

// Use returns the URL of a running broker of the chosen kind that nobody else
// uses in the domain [Domain]. It ends with the test.
func Use(t testing.TB) string {
	t.Helper()
	switch Chosen() {
	case Embedded:
		return UseEmbedded(t).URL()
	case Mosquitto:
		url, err := useMosquitto(t)
		if err != nil {
			t.Fatal(err)
		}
		ran(t)
		return url
	}
	url, err := share(t)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func useMosquitto(t testing.TB) (url string, err error) {
	s, err := startWith(t.Context(), Mosquitto, t.TempDir(), forgetfulMosquitto)
	if err != nil {
		return "", err
	}
	t.Cleanup(s.Stop)
	return s.URL(), nil
}

// Both runs f at the embedded broker and at mosquitto, whatever was chosen. Each call of
// start is a broker of its own. Without mosquitto that part is skipped, but not in
// continuous integration.
func Both(t *testing.T, f func(t *testing.T, start func() (url string))) {
	t.Run(string(Embedded), func(t *testing.T) {
		f(t, func() string { return UseEmbedded(t).URL() })
	})
	t.Run(string(Mosquitto), func(t *testing.T) {
		f(t, func() string {
			url, err := useMosquitto(t)
			if errors.Is(err, ErrMissing) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			return url
		})
	})
}

// UseExcept is Use, but for a kind that cannot do what the test is about.
func UseExcept(t testing.TB, cannot Kind, why string) string {
	t.Helper()
	if Chosen() == cannot {
		Stays(t.Name(), why)
		return UseEmbedded(t).URL()
	}
	return Use(t)
}

// UseEmbedded returns an embedded broker, whatever was chosen.
func UseEmbedded(t testing.TB) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("closing the broker: %v", err)
		}
	})
	return b
}

// VirtualTime is why a test stays on the embedded broker.
const VirtualTime = "runs in a bubble of virtual time, which holds no process"

// Stays notes that a test, or what is named like one, runs against the embedded
// broker whatever was chosen, and why.
func Stays(test, why string) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.stayed == nil {
		suite.stayed = map[string]string{}
	}
	suite.stayed[test] = why
}

// Domain is where the participants of a test, or of the test that it is a part
// of, meet.
func Domain(t testing.TB) string {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	for name := t.Name(); ; {
		if d := suite.domains[name]; d != "" {
			return d
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return "default"
		}
		name = name[:i]
	}
}

func ran(t testing.TB) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.ran == nil {
		suite.ran = map[string]bool{}
	}
	suite.ran[t.Name()] = true
}

func share(t testing.TB) (string, error) {
	ran(t)
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.shared == nil && suite.err == nil {
		suite.shared, suite.err = startShared()
	}
	if suite.err != nil {
		return "", suite.err
	}
	if suite.domains == nil {
		suite.domains = map[string]string{}
	}
	suite.count++
	suite.domains[t.Name()] = fmt.Sprintf("test%d", suite.count)
	return suite.shared.NodeURL(suite.count % suite.shared.Nodes()), nil
}

func startShared() (*Server, error) {
	var err error
	if suite.dir, err = os.MkdirTemp("", "padme-"+string(Chosen())+"-"); err != nil {
		return nil, err
	}
	return Start(context.Background(), Chosen(), suite.dir)
}

// Ending is m, but stops what the tests shared when they have run: before goroutines are
// looked for that are left.
func Ending(m *testing.M) interface{ Run() int } { return ending{m} }

type ending struct{ m *testing.M }

func (e ending) Run() int {
	code := e.m.Run()
	stopShared()
	return code
}

func stopShared() {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.shared != nil {
		suite.shared.Stop()
		suite.shared = nil
	}
	if suite.dir != "" {
		_ = os.RemoveAll(suite.dir)
	}
}

// Report prints what ran where, unless that is the embedded broker for all. It belongs
// to the end of TestMain.
func Report() {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if Chosen() == Embedded {
		return
	}
	fmt.Printf("%s: %d tests ran on it. On the embedded broker:\n", Chosen(), len(suite.ran))
	tests := map[string][]string{} // by reason
	for name, why := range suite.stayed {
		name, _, _ = strings.Cut(name, "/")
		tests[why] = append(tests[why], name)
	}
	for _, why := range slices.Sorted(maps.Keys(tests)) {
		slices.Sort(tests[why])
		fmt.Printf("- %s: %s\n", why, strings.Join(slices.Compact(tests[why]), ", "))
	}
}
