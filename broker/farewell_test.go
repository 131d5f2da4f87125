package broker_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/capture"
	"padme/tests/poll"
)

// Who says goodbye and closes its connection, as MQTT wants (3.1.1 §3.14.4), leaves no
// will, although the broker finds that it can write to it no more before it has read that.
func TestADisconnectCountsAfterAFailedWrite(t *testing.T) {
	for name, cfg := range map[string]broker.Config{"tcp": {TCP: "127.0.0.1:0"}, "in process": {}} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			cfg.Metrics = registry
			b := start(t, cfg)
			watcher := raw(t, b)
			watcher.connect("watcher", "", "", "")
			watcher.send(packet(0x82, []byte{0, 1}, text("will/+"), []byte{0}))
			watcher.receive()
			for i := range 30 {
				c := raw(t, b)
				c.connect(fmt.Sprint("c", i), "", fmt.Sprint("will/", i), "lost")
				farewell := []byte{}
				for id := range byte(200) { // each is to be acknowledged
					farewell = append(farewell, packet(0x32, text("x"), []byte{1, id + 1})...)
				}
				c.send(append(farewell, 0xe0, 0))
				_ = c.Close()
			}
			c := raw(t, b)
			c.connect("cut off", "", "will/last", "lost")
			poll.UntilOr(t, func() bool { return gather(t, registry)["padme_broker_sessions"] == 2 },
				func() string { return fmt.Sprint(gather(t, registry)["padme_broker_sessions"], " sessions") })
			_ = c.Close()
			if _, body := watcher.receive(); string(body) != string(text("will/last"))+"lost" {
				t.Errorf("a will of who has said goodbye: %q", body)
			}
		})
	}
}

// Who subscribes, publishes, says goodbye and is gone before its subscription was searched for
// has published, and leaves no will.
func TestWhoLeavesDuringASearchHasPublished(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry})
	filler := connect(t, at(b.URL()))
	for i := range 20_000 {
		filler.Client.Publish(fmt.Sprint("x/", i), 0, true, "x")
	}
	filler.publish("a", "x", 1, true)
	watcher := raw(t, b)
	watcher.connect("watcher", "", "", "")
	watcher.subscribe(4, "last/+")
	for i := range 10 {
		c := raw(t, b)
		c.connect(fmt.Sprint("c", i), "", "last/will", "lost")
		c.send(slices.Concat(packet(0x82, []byte{0, 1}, text("a"), []byte{0}, text("x/#"), []byte{0}),
			packet(0x30, text(fmt.Sprint("last/", i)), []byte("x")), packet(0xe0)))
		_ = c.Close()
		if _, body := watcher.receive(); string(body) != string(text(fmt.Sprint("last/", i)))+"x" {
			t.Errorf("%q", body)
		}
	}
	if n := gather(t, registry)["padme_broker_cut_total/protocol"]; n != 0 {
		t.Errorf("%v connections were cut", n)
	}
}

// What a client has subscribed to is tried no more once it is gone: mochi goes on to the end,
// with the tree locked.
func TestNothingIsTriedOfWhoIsGone(t *testing.T) {
	var log capture.Text
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	filler := connect(t, at(b.URL()))
	for i := range 10_000 { // more than sockets take
		filler.Client.Publish(fmt.Sprint("x/", i), 0, true, strings.Repeat("x", 2000))
	}
	filler.publish("a", "x", 1, true)
	c := raw(t, b)
	c.connect("c", "", "", "")
	c.send(packet(0x82, []byte{0, 1}, text("x/#"), []byte{0}))
	c.receive() // the SUBACK; the rest is not read
	raw(t, b).connect("c", "", "", "")
	former := "client=c remote=" + c.LocalAddr().String()
	poll.UntilOr(t, func() bool { return strings.Contains(log.String(), former) }, func() string { return "the former connection goes on" })
	if n := strings.Count(log.String(), "failed to publish retained message"); n > 1 {
		t.Errorf("%d messages were tried", n)
	}
}

// Who does not read what it has subscribed to is cut off, and its will is told.
func TestTheWillOfWhoReadsNothing(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 300 * time.Millisecond}})
	filler := connect(t, at(b.URL()))
	for i := range 10_000 { // more than sockets take
		filler.Client.Publish(fmt.Sprint("x/", i), 0, true, strings.Repeat("x", 2000))
	}
	filler.publish("a", "x", 1, true)
	watcher := raw(t, b)
	watcher.connect("watcher", "", "", "")
	watcher.subscribe(4, "last/+")
	c := raw(t, b)
	c.connect("c", "", "last/will", "lost")
	c.send(packet(0x82, []byte{0, 1}, text("x/#"), []byte{0}))
	if _, body := watcher.receive(); !strings.HasSuffix(string(body), "lost") {
		t.Errorf("%q", body)
	}
}

// Who does not want its own messages is sent none of those that it has retained, and is not
// taken for one that does not read them.
func TestOwnRetainedMessagesAreNotAwaited(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 300 * time.Millisecond}})
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text("c")))
	c.receive()
	for i := range 3000 {
		c.send(packet(0x31, text(fmt.Sprint("x/", i)), []byte{0}, []byte("x")))
	}
	c.send(slices.Concat(packet(0x82, []byte{0, 1, 0}, text("x/#"), []byte{0x04}), packet(0xc0)))
	for _, want := range []byte{0x90, 0xd0} {
		if first, body := c.receive(); first != want {
			t.Fatalf("%#x %x, want %#x", first, body, want)
		}
	}
}
