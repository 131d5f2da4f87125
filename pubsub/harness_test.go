package pubsub

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub/filter"
	"padme/tests/brokers"
	"padme/tests/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(4)
	for test, why := range embeddedOnly {
		brokers.Stays(test, why)
	}
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

// embeddedOnly are the tests with a broker which the choice of one does not
// concern.
var embeddedOnly = map[string]string{
	"TestABrokerWithAccessRulesLetsMembersDoTheirWork": "its subject is the embedded broker's access rules",
	"TestRefusedCredentialsEndAParticipant":            "changes a user of the embedded broker",
	"TestTLSErrorsSayWhatHelps":                        "its subject are the embedded broker's listeners",
	"TestEveryTransportCarriesMessages":                "its subject are the embedded broker's listeners",
	"TestEverythingComesBackAfterTheBrokerRestarts":    "restarts its broker: tests/brokers does that to all",
	"Example…": "what they print shows the embedded broker",
}

// startBroker runs a broker of the chosen kind until the test ends and returns
// its URL.
func startBroker(t testing.TB) string {
	t.Helper()
	return brokers.Use(t)
}

func startBrokerAt(t testing.TB, addr string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(testContext(t), broker.Config{TCP: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	return b
}

func stopBroker(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("closing the broker: %v", err)
	}
}

// join makes a participant that is closed when the test ends.
func join(t testing.TB, url, id string, opts ...Option) *Participant {
	t.Helper()
	p, err := Join(testContext(t), url, id, append(at(t), opts...)...)
	if err != nil {
		t.Fatalf("Join(%q): %v", id, err)
	}
	t.Cleanup(func() {
		// The test is over, and its broker may be: what is unread may remain so.
		if err := closeSoon(p); err != nil && !errors.Is(err, ErrUndelivered) {
			t.Errorf("Close(%q): %v", p.ID(), err)
		}
	})
	return p
}

// at is the domain that a test has for itself.
func at(t testing.TB) []Option { return []Option{WithDomain(brokers.Domain(t))} }

func closeNow(t testing.TB, p *Participant) {
	t.Helper()
	if err := closeSoon(p); err != nil {
		t.Errorf("Close(%q): %v", p.ID(), err)
	}
}

func closeSoon(p *Participant) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Close(ctx)
}

// testContext bounds every wait of a test.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive takes the next value of a channel.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("unreachable")
	}
}

// selected is the option of a filter in text.
func selected(t *testing.T, text string) EndpointOption {
	t.Helper()
	x, err := filter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return WithExpression(x)
}
