package broker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/bubble"
)

// A client that cannot be sent its CONNACK, as it takes no packet of that length, leaves
// nothing behind, not even until the next sweep: no time passes here.
func TestARefusedLengthLeavesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b, err := broker.Start(context.Background(), broker.Config{Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		c := raw(t, b)
		maximumOfOne := []byte{5, 39, 0, 0, 0, 1}
		c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60}, maximumOfOne, text("small")))
		c.gone()
		synctest.Wait()
		if n := gather(t, registry)["padme_broker_sessions"]; n != 0 {
			t.Errorf("%v sessions are left", n)
		}
		stop(t, b)
	})
}
