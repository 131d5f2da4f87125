package broker_test

import (
	"log/slog"
	"strings"
	"testing"

	"padme/broker"
)

// A stranger, and an account, may be refused as often as they like.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	log := &lockedText{}
	b := start(t, broker.Config{Users: cast(t), Logger: slog.New(slog.NewTextHandler(log, nil))})
	long := strings.Repeat("\x01", 10_000)
	for range 50 {
		c := raw(t, b)
		c.send(packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text(long), text("nobody"), text(long[:100])))
		c.receive()
		c = raw(t, b)
		c.connect("c", "alice", "", "")
		c.send(packet(0x32, text(long), []byte{0, 7}))
		c.receive()
		c = five(t, b, "five")
		c.send(packet(0x32, text(long), []byte{0, 7, 0}))
		c.receive()
	}
	if all := log.String(); len(all) > 20_000 || !strings.Contains(all, "nobody") || !strings.Contains(all, "alice") {
		t.Errorf("%d bytes of log: %.2000q", len(all), all)
	}
}
