//go:build unix

package main

import (
	"context"
	"regexp"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

func TestQoSCheckNamesWhatDoesNotMatch(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	ctx, cancel := context.WithTimeout(t.Context(), patienceInTests)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "plant")
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	write := func(topic string, q pubsub.QoS) { mustMake(t, pubsub.NewWriter[document], ctx, p, topic, q) }
	read := func(topic string, q pubsub.QoS) { mustMake(t, pubsub.NewReader[document], ctx, p, topic, q) }
	write("good", pubsub.QoS{})
	read("good", pubsub.QoS{})
	write("apart", pubsub.QoS{})
	read("apart", pubsub.QoS{Partition: []string{"north"}})
	check(t, url, 0, `^TOPIC .*\napart +plant/w[0-9]+ +plant/r[0-9]+ +PARTITION +default +north\n$`)
	check(t, url, 0, `^TOPIC [^\n]*\n$`, "good")
	check(t, url, 1, `topic "nothing" has no writer or reader`, "nothing")

	write("slow", pubsub.QoS{})
	read("slow", pubsub.QoS{Deadline: time.Second})
	check(t, url, 1, `(?m)^slow +plant/w[0-9]+ +plant/r[0-9]+ +DEADLINE +none +1s$`)
	check(t, url, 1, `^{"topic":"slow","writer":"plant/w[0-9]+","reader":"plant/r[0-9]+","reason":"DEADLINE","offered":"none","requested":"1s"}\n$`, "slow", "--json")
	write("weak", pubsub.QoS{})
	read("weak", pubsub.QoS{Reliability: pubsub.Reliable})
	check(t, url, 1, `(?m)^weak .* RELIABILITY +best-effort +reliable$`, "weak")
	write("mine", pubsub.QoS{Exclusive: true})
	read("mine", pubsub.QoS{})
	check(t, url, 1, `(?m)^mine .* OWNERSHIP +exclusive +shared$`, "mine")
}

func mustMake[E any](t *testing.T, newEndpoint func(context.Context, *pubsub.Topic[document], ...pubsub.EndpointOption) (*E, error), ctx context.Context, p *pubsub.Participant, name string, q pubsub.QoS) {
	t.Helper()
	topic, err := newDocumentTopic(p, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newEndpoint(ctx, topic, pubsub.WithQoS(q)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Endpoints(ctx); err != nil { // once they are back, the broker has them
		t.Fatal(err)
	}
}

func check(t *testing.T, url string, code int, says string, args ...string) {
	t.Helper()
	n := startNode(t, t.TempDir(), url, append([]string{"qos", "check"}, args...)...)
	if got := n.exit(t); got != code {
		t.Errorf("qos check %q: exit code %d, want %d: %s", args, got, code, &n.Err)
	}
	if got := n.Out.String() + n.Err.String(); !regexp.MustCompile(says).MatchString(got) {
		t.Errorf("qos check %q says %s", args, got)
	}
}
