package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/bubble"
)

// five logs in with MQTT 5 and these properties, as alice if there are users.
func five(t *testing.T, b *broker.Broker, id string, properties ...[]byte) *rawConn {
	t.Helper()
	c := raw(t, b)
	body := bytes.Join(properties, nil)
	c.send(packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, byte(len(body))}, body, text(id), text("alice"), text("alice")))
	if first, body := c.receive(); first != 0x20 || body[1] != 0 {
		t.Fatalf("CONNACK %#x %v", first, body)
	}
	return c
}

// The CONNACK offers no topic aliases: each would keep its packet, of a megabyte, for as long
// as the connection lasts.
func TestTopicAliasesAreNotTaken(t *testing.T) {
	b := start(t, broker.Config{})
	c := five(t, b, "five")
	c.send(packet(0x30, text("elsewhere"), []byte{3, 0x23, 0, 1}))
	if first, body := c.receive(); first != 0xe0 || body[0] != 0x94 {
		t.Errorf("%#x %v, want a DISCONNECT with reason 0x94", first, body)
	}
	c.gone()
}

// Nor are aliases used for a client that takes some: every topic would be kept.
func TestTopicAliasesAreNotUsed(t *testing.T) {
	b := start(t, broker.Config{})
	c := five(t, b, "five", []byte{34, 0xff, 0xff})
	c.send(packet(0x82, []byte{0, 1, 0}, text("t"), []byte{0}))
	c.receive()
	connect(t, inProcess(b)).publish("t", "x", 0, false)
	if first, body := c.receive(); first != 0x30 || !bytes.Equal(body, append(text("t"), 0, 'x')) {
		t.Errorf("%#x %v, want topic and no properties", first, body)
	}
}

// A client is sent as many messages as its Receive Maximum allows, and the others in order as
// it acknowledges.
func TestReceiveMaximumIsKept(t *testing.T) {
	b := start(t, broker.Config{})
	c := five(t, b, "five", []byte{33, 0, 2})
	c.send(packet(0x82, []byte{0, 1, 0}, text("t"), []byte{1}))
	c.receive()
	pub := connect(t, inProcess(b))
	const n = 300
	for i := range n {
		pub.publish("t", fmt.Sprint(i), 1, false)
	}
	var ids [][]byte
	for i := range n {
		first, body := c.receive()
		if first&0xf0 != 0x30 || string(body[6:]) != fmt.Sprint(i) {
			t.Fatalf("%#x %q, want message %d", first, body, i)
		}
		if ids = append(ids, body[3:5]); len(ids) < 2 {
			continue
		}
		c.send(packet(0xc0)) // what comes before its answer came without an acknowledgement
		if first, _ := c.receive(); first != 0xd0 {
			t.Fatalf("%#x came beyond the maximum", first)
		}
		c.send(packet(0x40, ids[0]))
		ids = ids[1:]
	}
}

// mochi locked a client's messages twice for reading, one within the other, at each of its
// packets while some were unacknowledged: publishers in between waited for ever.
func TestPublishersPassAClientThatPings(t *testing.T) {
	b := start(t, broker.Config{})
	c := five(t, b, "five", []byte{33, 0xea, 0x60})
	c.send(packet(0x82, []byte{0, 1, 0}, text("t"), []byte{1}))
	c.receive()
	reading, pinging := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reading)
		buf := make([]byte, 1<<16)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(pinging)
		pings := bytes.Repeat([]byte{0xc0, 0}, 100)
		for {
			if _, err := c.Write(pings); err != nil {
				return
			}
		}
	}()
	pub := connect(t, inProcess(b))
	for range 3000 {
		pub.publish("t", "x", 1, false)
	}
	_ = c.Close()
	<-reading
	<-pinging
}

// A retained message is charged for as long as it stands, also while a will is to take its
// place that may never come.
func TestAWillGivesNoRoomBack(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{Retained: 100_000}})
	topic := func(i int) string { return fmt.Sprintf("padme/v1/d/data/p/t/k%d/alice/w", i) }
	kept := 0
	for i := range 20 {
		c := connect(t, inProcess(b), as("alice", "alice"))
		c.publish(topic(i), string(make([]byte, 20_000)), 1, true)
		if w, err := dial(t, inProcess(b), as("alice", "alice"), will(topic(i), "x", true)); err == nil {
			w.Disconnect(50) // so it is not sent
		}
	}
	watch := raw(t, b)
	watch.connect("watch", "alice", "", "")
	watch.send(packet(0x82, []byte{0, 1}, text("padme/v1/d/data/#"), []byte{0}))
	watch.send(packet(0xc0))
	for {
		first, _ := watch.receive()
		if first == 0xd0 {
			break
		}
		if first&0xf0 == 0x30 {
			kept++
		}
	}
	if kept > 5 {
		t.Errorf("%d messages of 20,000 bytes are retained, of 100,000 bytes", kept)
	}
}

// The will of a session that ends with its connection waits for nothing, and that of another
// for its delay, unless the client comes back.
func TestWillDelay(t *testing.T) {
	t.Parallel()
	b := start(t, broker.Config{})
	watch := connect(t, inProcess(b))
	watch.subscribe("w/#", 1)
	leave := func(id string, expiry, delay uint32) {
		t.Helper()
		c := raw(t, b)
		session := binary.BigEndian.AppendUint32([]byte{17}, expiry)
		wait := binary.BigEndian.AppendUint32([]byte{24}, delay)
		c.send(packet(0x10, text("MQTT"), []byte{5, 0x04 | 0x20, 0, 60, 5}, session, text(id), []byte{5}, wait, text("w/"+id), text(id)))
		if first, body := c.receive(); first != 0x20 || body[1] != 0 {
			t.Fatalf("CONNACK %#x %v", first, body)
		}
		_ = c.Close()
	}
	leave("none", 0, 1<<31) // its session is over
	watch.receive(1)
	leave("long", 1000, 1000)
	leave("back", 1000, 2)
	leave("back", 1000, 1000)
	leave("short", 1000, 2)
	if got := fmt.Sprint(watch.receive(2)); got != "[none short]" {
		t.Errorf("wills of %v", got)
	}
	late := connect(t, inProcess(b))
	late.subscribe("w/short", 0)
	late.receive(1) // it is retained
}

// What has expired leaves no trace of its topic.
func TestExpiredMessagesLeaveNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := start(t, broker.Config{Limits: broker.Limits{Retained: 1 << 30}})
		c := five(t, b, "five")
		round := func(n int) {
			t.Helper()
			for i := range 5000 {
				c.send(packet(0x31, text(fmt.Sprintf("some/where/%d/%d/there/are/many/levels", n, i)), []byte{5, 2, 0, 0, 0, 1}, []byte("x")))
			}
			c.send(packet(0xc0))
			c.receive()
			time.Sleep(15 * time.Second) // longer than between two looks of the library
			w := connect(t, inProcess(b))
			defer w.Disconnect(0)
			w.subscribe("some/#", 0)
			w.publish("some/end", "end", 0, false) // it is queued behind what is retained
			if first := w.receive(1)[0]; first != "end" {
				t.Error("they do not expire")
			}
		}
		round(0)
		base := inUse()
		for n := range 3 {
			round(n + 1)
		}
		if more := inUse() - base; more > 10<<20 {
			t.Errorf("%d MB more than before", more>>20)
		}
	})
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is too long for a client is left out, and does not keep back what was encoded before it.
func TestAPacketThatIsTooLongHoldsNothingUp(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	filler := connect(t, at(b.URL()))
	filler.publish("a/0", "short", 1, true)
	filler.publish("a/1", strings.Repeat("long", 20), 1, true)
	for range 20 {
		c := five(t, b, "small", binary.BigEndian.AppendUint32([]byte{39}, 40)) // Maximum Packet Size
		c.send(packet(0x82, []byte{0, 1, 0}, text("a/#"), []byte{0}))
		if first, body := c.receive(); first != 0x90 {
			t.Fatalf("%#x %x", first, body)
		}
		if first, body := c.receive(); first != 0x31 || !bytes.HasSuffix(body, []byte("short")) {
			t.Fatalf("%#x %q", first, body)
		}
		_ = c.Close()
	}
}

// The identifier of a subscription is in what is sent for it, retained or not [MQTT-3.3.4-3].
func TestRetainedMessagesNameTheirSubscription(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	filler := connect(t, at(b.URL()))
	filler.publish("a/0", "kept", 1, true)
	c := five(t, b, "c")
	c.send(packet(0x82, []byte{0, 1, 2, 11, 7}, text("a/#"), []byte{0}, text("#"), []byte{0}))
	c.receive()
	for _, want := range []string{"kept", "live"} {
		first, body := c.receive()
		if got := string(body[len(text("a/0")):]); first&0xf0 != 0x30 || !strings.HasPrefix(got, "\x02\x0b\x07") && !strings.HasPrefix(got, "\x04\x0b\x07\x0b\x07") || !strings.HasSuffix(got, want) {
			t.Errorf("%#x %q, want identifier 7 and %q", first, got, want)
		}
		filler.publish("a/0", "live", 0, false)
	}
}
