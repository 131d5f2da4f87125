package broker_test

import (
	"fmt"
	"strings"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
)

// An answer that is retained on the topic of its question reaches every subscriber after the
// question, so the last message that each one gets is the retained one.
func TestRetainedTopicsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for qos := range byte(2) {
		b := start(t, broker.Config{})
		var answering *client
		answering = connect(t, inProcess(b), func(o *paho.ClientOptions) {
			o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
				if n, asked := strings.CutPrefix(string(m.Payload()), "question "); asked {
					go answering.Publish("t", qos, true, "answer "+n)
				}
			})
		})
		asking := connect(t, inProcess(b))
		watchers := []*client{}
		for range 20 {
			w := connect(t, inProcess(b))
			w.subscribe("+", 1)
			watchers = append(watchers, w)
		}
		answering.subscribe("t", 1)
		const rounds = 100
		for i := range rounds {
			asking.publish("t", fmt.Sprint("question ", i), qos, true)
			watchers[0].receive(2 * (i + 1))
		}
		for _, w := range watchers {
			for i, payload := range w.receive(2 * rounds) {
				if want := fmt.Sprint([]string{"question ", "answer "}[i%2], i/2); payload != want {
					t.Fatalf("at QoS %d %q came, not %q", qos, payload, want)
				}
			}
		}
		stop(t, b)
	}
}
