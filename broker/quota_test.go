package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
)

// One user's retained messages end at its quota, also over a restart and by wills;
// those of another do not feel it, and what is cleared is free again.
func TestOneUserCannotFillTheMemory(t *testing.T) {
	dir := t.TempDir()
	const own = "padme/v1/default/data/p/t/%d/alice/w"
	begin := func() (*broker.Broker, *prometheus.Registry) {
		registry := prometheus.NewRegistry()
		return start(t, broker.Config{Users: cast(t), DataDir: dir, Metrics: registry, Limits: broker.Limits{Retained: 51_000}}), registry
	}
	kept := func(registry *prometheus.Registry) float64 {
		return gather(t, registry)["padme_broker_retained_messages"]
	}
	refused := func(registry *prometheus.Registry) float64 {
		return gather(t, registry)["padme_broker_refused_total/retain"]
	}

	b, registry := begin()
	alice := connect(t, inProcess(b), as("alice", "alice"))
	load := strings.Repeat("x", 1000)
	for i := range 20 {
		alice.publish(fmt.Sprintf(own, i), load, 1, true)
	}
	if kept(registry) != 6 || refused(registry) != 14 {
		t.Fatalf("%v kept, %v refused", kept(registry), refused(registry))
	}
	for range 20 {
		alice.publish(fmt.Sprintf(own, 3), load, 1, true) // in place of the former
	}
	alice.publish(fmt.Sprintf(own, 20), load, 1, false) // not retained
	alice.publish(fmt.Sprintf(own, 0), "", 1, true)
	alice.publish(fmt.Sprintf(own, 21), load, 1, true)
	if kept(registry) != 6 || refused(registry) != 14 {
		t.Errorf("after clearing one: %v kept, %v refused", kept(registry), refused(registry))
	}
	bob := connect(t, inProcess(b), as("bob", "bob"))
	bob.publish("padme/v1/default/presence/bob", load, 1, true)
	if kept(registry) != 7 {
		t.Errorf("bob has no room: %v kept", kept(registry))
	}
	if _, err := dial(t, inProcess(b), as("alice", "alice"), will("padme/v1/default/data/p/t/z/alice/w", load, true)); err == nil {
		t.Error("a retained will beyond the quota was accepted")
	}
	alice.Disconnect(50)
	bob.Disconnect(50)
	stop(t, b)

	b, registry = begin()
	alice = connect(t, inProcess(b), as("alice", "alice"))
	alice.publish(fmt.Sprintf(own, 22), load, 1, true)
	if kept(registry) != 7 || refused(registry) != 1 {
		t.Errorf("after a restart: %v kept, %v refused", kept(registry), refused(registry))
	}
}
