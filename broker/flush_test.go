package broker_test

import (
	"fmt"
	"testing"

	"padme/broker"
)

// What the broker has acknowledged before it is closed reaches those who are connected and
// read, also at QoS 0: the last word of a run is often said just before its broker ends.
func TestCloseDeliversWhatIsQueued(t *testing.T) {
	for name, cfg := range map[string]broker.Config{"tcp": {TCP: "127.0.0.1:0"}, "websocket": {WebSocket: "127.0.0.1:0"}, "in process": {}} {
		t.Run(name, func(t *testing.T) {
			const messages = 3000
			b := start(t, cfg)
			to := at(b.URL())
			if b.URL() == "" {
				to = inProcess(b)
			}
			watcher, publisher := connect(t, to), connect(t, inProcess(b))
			watcher.subscribe("news/#", 0)
			for i := range messages - 1 {
				publisher.Publish("news/all", 1, false, fmt.Sprint(i))
			}
			publisher.publish("news/all", "the last", 1, false)
			stop(t, b)
			if all := watcher.receive(messages); all[messages-1] != "the last" {
				t.Errorf("last of all came %q", all[messages-1])
			}
		})
	}
}
