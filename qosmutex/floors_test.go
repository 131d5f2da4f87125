package qosmutex

import (
	"testing"
	"time"

	"padme/pubsub"
)

// As TestFounderStartsAboveWhatTheBrokerRemembers, at the chosen broker: one that
// returns no retained message for a wildcard must not make fences go back.
func TestFounderAsksForTheStateOfEachDeclaredResource(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p := join(t, url, "a")
	ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	state := []byte(`{"topic":"t","resource":"truck","fence":"` + formatFence(ahead) + `","epoch":"1.x","root":"old"}`)
	if err := p.PublishRaw(pubsub.Main, []string{"lock", "t", "truck", "state"}, state, true); err != nil {
		t.Fatal(err)
	}
	late := join(t, url, "b")
	eventually(t, "the broker retains it", func() bool {
		return len(subscribe(t, late, "lock", "t", "truck", "state").now()) > 0
	})
	topic := open(t, join(t, url, "founder"), "t", Found(), WithResources("crane", "truck"))
	h := lock(t, topic, "crane")
	if h.Fence() <= ahead {
		t.Errorf("fence %d, the broker remembers %d", h.Fence(), ahead)
	}
	unlock(t, h)
}
