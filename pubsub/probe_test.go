package pubsub

import (
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/extent"
)

func TestProbeFindsWhatTheBrokerDoes(t *testing.T) {
	a, err := Probe(testContext(t), startBroker(t), "probe", at(t)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %q", a, a.Warnings())
	if !a.Retained || a.Largest != MaxPayload || a.RoundTrip <= 0 {
		t.Errorf("%+v", a)
	}
	if wildcards := brokers.Chosen() != brokers.RabbitMQ; a.RetainedWildcards != wildcards {
		t.Errorf("retained wildcards %v, want %v", a.RetainedWildcards, wildcards)
	}
}

func TestProbeFindsALimitOfSize(t *testing.T) {
	extent.Long(t, "a broker that refuses ever shorter messages")
	t.Parallel()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{PacketSize: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	a, err := Probe(testContext(t), b.URL(), "probe")
	if err != nil {
		t.Fatal(err)
	}
	if a.Largest != MaxPayload/16 {
		t.Errorf("largest %d", a.Largest)
	}
}

func TestWarningsNameTheConsequence(t *testing.T) {
	whole := Abilities{Retained: true, RetainedWildcards: true, Largest: MaxPayload, RoundTrip: time.Millisecond}
	if w := whole.Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
	for _, a := range []Abilities{{Largest: MaxPayload}, {Largest: MaxPayload, Retained: true}} {
		if w := a.Warnings(); len(w) != 1 || !strings.Contains(w[0], "transient readers get nothing") {
			t.Errorf("%+v: %q says nothing of transient readers", a, w)
		}
	}
	for want, change := range map[string]func(*Abilities){
		"comes late":         func(a *Abilities) { a.Retained = false },
		"watch them by name": func(a *Abilities) { a.RetainedWildcards = false },
		"62500":              func(a *Abilities) { a.Largest = 62500 },
		"set_tcp_nodelay":    func(a *Abilities) { a.RoundTrip = 44 * time.Millisecond },
	} {
		a := whole
		change(&a)
		if w := a.Warnings(); len(w) != 1 || !strings.Contains(w[0], want) {
			t.Errorf("%+v: %q, want one that says %q", a, w, want)
		}
	}
}
