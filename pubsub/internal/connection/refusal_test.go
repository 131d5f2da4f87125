package connection

import (
	"strings"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// MQTT 3.1.1 has one answer to a filter that may not be subscribed to and to one that is one too many,
// and another one for a broker that is busy and for a user with too many connections.
func TestARefusalMayBeALimit(t *testing.T) {
	for text, want := range map[string][]string{
		(&Refusal{Filter: "a/#", code: 0x80}).Error():                                                        {"access rules", "a limit", "the broker's log"},
		connectError(t.Context(), Config{URL: "mqtt://here"}, packets.ErrorRefusedServerUnavailable).Error(): {"try again later", "too many connections", "the broker's log"},
	} {
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q does not say %q", text, w)
			}
		}
	}
}
