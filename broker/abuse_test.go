package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/poll"
)

func TestSlowLorisIsCutOff(t *testing.T) {
	t.Parallel()
	serverTLS, _ := certificates(t)
	limits := broker.Limits{ConnectTimeout: 200 * time.Millisecond}
	for _, b := range []*broker.Broker{
		start(t, broker.Config{TCP: "127.0.0.1:0", Limits: limits}),
		start(t, broker.Config{TCP: "127.0.0.1:0", TLS: serverTLS, Limits: limits}),
	} {
		for _, opening := range []string{"", "\x10", "\x10\x20\x00\x04MQ"} {
			c := raw(t, b)
			c.send([]byte(opening))
			begin := time.Now()
			c.gone()
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("%q was tolerated for %v", opening, d)
			}
		}
	}
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0", Limits: limits})
	for _, opening := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"} {
		c, err := net.Dial("tcp", b.WebSocketAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := &rawConn{c, t}
		r.send([]byte(opening))
		r.gone()
	}
}

func TestHostileLengthsAllocateNothing(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		for _, opening := range []string{
			"\x10\xff\xff\xff\x7f",     // a CONNECT of 256 MB
			"\x10\xff\xff\x3f",         // 1 MB, above the limit of a first packet
			"\x10\xff\xff\xff\xff\x7f", // a malformed length
			"\x30\xff\xff\xff\x7f",     // no CONNECT
			"GET / HTTP/1.1\r\n\r\n",
		} {
			c := raw(t, b)
			_, _ = c.Write([]byte(opening))
			c.gone()
		}
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20 {
		t.Errorf("%d MB allocated for 250 strangers", spent>>20)
	}
	c := raw(t, b)
	c.connect("big", "", "", "")
	_, _ = c.Write([]byte("\x30\xff\xff\xff\x7f"))
	c.gone()
}

// Each of these has a length that lies; mochi panics on some.
func TestMalformedPacketsCostOnlyTheirSender(t *testing.T) {
	b := start(t, broker.Config{})
	witness := connect(t, inProcess(b))
	witness.subscribe("will/#", 1)
	for i, p := range [][]byte{
		packet(0x82, []byte{0, 1, 0}, text("a")),                      // SUBSCRIBE without its options
		packet(0x82, []byte{0, 1, 9}, text("a")),                      // properties beyond the end
		packet(0xa2, []byte{0, 1, 0, 0}),                              // UNSUBSCRIBE, half a filter
		packet(0x30, []byte{0, 9}, []byte("a")),                       // PUBLISH, half a topic
		packet(0x30, text("a"), []byte{2, 0x23}),                      // half a topic alias
		packet(0x32, text("a"), []byte{0, 0, 0}),                      // packet id 0
		packet(0xe0, []byte{0, 5, 0x11}),                              // DISCONNECT, half an expiry
		packet(0x40, []byte{0}),                                       // PUBACK, half an id
		packet(0xf0, []byte{0x18}),                                    // AUTH
		packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text("x")), // a second CONNECT
		{0x00, 0x00},
	} {
		c := raw(t, b)
		c.send(packet(0x10, text("MQTT"), []byte{5, 2 | 4, 0, 60, 0}, text(fmt.Sprint("evil", i)), []byte{0}, text(fmt.Sprint("will/", i)), text("dead")))
		c.receive()
		c.send(p)
		c.gone()
	}
	if got := witness.receive(11); len(got) != 11 {
		t.Errorf("%d wills", len(got))
	}
}

func TestRefusedPublicationIsAnswered(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	c := raw(t, b)
	c.connect("three", "alice", "", "")
	c.send(packet(0x32, text("elsewhere"), []byte{0, 7}))
	if first, body := c.receive(); first != 0x40 || !bytes.Equal(body, []byte{0, 7}) {
		t.Errorf("MQTT 3.1.1: %#x %v", first, body)
	}
	five := raw(t, b)
	five.send(packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, 0}, text("five"), text("alice"), text("alice")))
	five.receive()
	five.send(packet(0x32, text("elsewhere"), []byte{0, 8, 0}))
	if first, body := five.receive(); first != 0x40 || len(body) < 3 || body[2] != 0x87 {
		t.Errorf("MQTT 5: %#x %v, want reason 0x87", first, body)
	}
}

// mochi throws a client out that publishes and subscribes at QoS 2.
func TestSubscriptionsAreGrantedQoS1(t *testing.T) {
	b := start(t, broker.Config{})
	c := connect(t, inProcess(b))
	if got := c.granted("a", 2); got != 1 {
		t.Errorf("granted %d", got)
	}
	for range 2000 {
		c.publish("a", "x", 2, false)
	}
	c.receive(2000)
}

// A client has to complete its exchanges at QoS 2: mochi remembers each until then. It gives room for
// another one for each PUBCOMP, also of an exchange that never was, and for a PUBREL of a delivery.
func TestHalvesOfAnExchangeAreBounded(t *testing.T) {
	const most, times = 1024, 300
	for name, room := range map[string]func(c *rawConn){
		"by PUBACK":  func(c *rawConn) { c.send(packet(0x40, c.delivery())) },
		"by PUBCOMP": func(c *rawConn) { c.send(packet(0x70, c.delivery())) },
		"by PUBREL":  func(c *rawConn) { c.send(packet(0x62, c.delivery())) },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, broker.Config{})
			other := connect(t, inProcess(b))
			c := raw(t, b)
			c.connect("halves", "", "", "")
			c.send(packet(0x82, []byte{0, 1}, text("a"), []byte{1}))
			c.receive()
			for id := range uint16(most) {
				c.send(packet(0x34, text("c"), binary.BigEndian.AppendUint16(nil, 1<<15+id)))
				for first := byte(0); first != 0x50; { // after answers to what room has sent
					first, _ = c.receive()
				}
				if id < times {
					other.publish("a", "x", 1, false)
					room(c)
				}
			}
			_, _ = c.Write(packet(0x34, text("c"), []byte{255, 254}))
			c.gone()
		})
	}
}

// delivery returns the packet id of the next delivery.
func (c *rawConn) delivery() []byte {
	for {
		if first, body := c.receive(); first == 0x32 {
			return body[3:5]
		}
	}
}

// The delivery with the id of an exchange of the client's that is long over stays.
func TestPUBRELOfADeliveryIsAnsweredAndForgotten(t *testing.T) {
	b := start(t, broker.Config{})
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, 0, 0, 60}, text("s")))
	c.receive()
	c.send(packet(0x82, []byte{0, 1}, text("a"), []byte{1}))
	c.receive()
	connect(t, inProcess(b)).publish("a", "unacknowledged", 1, false)
	_, body := c.receive()
	c.send(packet(0x62, body[3:5]))
	if first, answer := c.receive(); first != 0x70 || !bytes.Equal(answer[:2], body[3:5]) {
		t.Errorf("PUBCOMP: %#x %v", first, answer)
	}
	c.send(packet(0x70, body[3:5]))
	c.Close()
	c = raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, 0, 0, 60}, text("s")))
	c.receive()
	if first, body := c.receive(); first&0xf0 != 0x30 || string(body[5:]) != "unacknowledged" {
		t.Errorf("delivered again: %#x %q", first, body)
	}
}

// mochi has one table for the packet ids of both directions.
func TestPacketIDsOfTheDirectionsAreApart(t *testing.T) {
	b := start(t, broker.Config{})
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, 0, 0, 60}, text("s")))
	c.receive()
	c.send(packet(0x82, []byte{0, 1}, text("a"), []byte{1}))
	c.receive()
	pub := connect(t, inProcess(b))
	pub.publish("a", "unacknowledged", 1, false)
	_, body := c.receive()
	id := body[3:5]
	c.send(packet(0x82, id, text("b"), []byte{1})) // the same id, upwards
	if first, body := c.receive(); first != 0x90 || body[2] != 1 {
		t.Errorf("SUBACK %#x %v", first, body)
	}
	c.send(packet(0x32, text("b"), id, []byte("own")))
	for range 2 { // its PUBACK and its delivery
		if first, body := c.receive(); first == 0x32 && bytes.Equal(body[3:5], id) {
			t.Error("an id that is in use was given to a delivery")
		}
	}
	c.Close()
	c = raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, 0, 0, 60}, text("s")))
	c.receive()
	var got []string
	for range 2 {
		_, body := c.receive()
		got = append(got, string(body[5:]))
	}
	if !slices.Equal(got, []string{"unacknowledged", "own"}) {
		t.Errorf("delivered again: %q", got)
	}
}

func TestTakeoverCutsTheFormerConnection(t *testing.T) {
	b := start(t, broker.Config{})
	former := raw(t, b)
	former.connect("same", "", "", "")
	latter := raw(t, b)
	latter.connect("same", "", "", "")
	former.gone()
	latter.send([]byte{0xc0, 0})
	if first, _ := latter.receive(); first != 0xd0 {
		t.Errorf("packet %#x", first)
	}
}

// A publication to $SYS gets no PUBACK from mochi.
func TestSysIsAnswered(t *testing.T) {
	b := start(t, broker.Config{})
	c := connect(t, inProcess(b))
	c.subscribe("$SYS/#", 1)
	c.publish("$sys/x", "x", 1, true)
	c.publish("$SYS/broker/version", "fake", 1, true)
	poll.UntilOr(t, func() bool { return len(c.payloads()) > 5 }, func() string { return "no statistics" })
	if slices.Contains(c.payloads(), "fake") {
		t.Error("a client has written to $SYS")
	}
}

func TestWebSocketNeedsBinaryMessagesAndAnUpgrade(t *testing.T) {
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0"})
	res, err := http.Get("http://" + b.WebSocketAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %s", res.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A page from anywhere runs in a browser on this machine and so reaches what listens
// here only. Where there are no users nothing else would stop it.
func TestForeignPagesAreKeptOutWhereNobodyLogsIn(t *testing.T) {
	open, withUsers := start(t, broker.Config{WebSocket: "127.0.0.1:0", Origins: []string{"https://panel.example"}}), start(t, broker.Config{WebSocket: "127.0.0.1:0", Users: cast(t)})
	for _, c := range []struct {
		b      *broker.Broker
		origin string
		in     bool
	}{
		{open, "", true},
		{open, "http://localhost:8080", true},
		{open, "http://127.0.0.1:1", true},
		{open, "https://[::1]:1", true},
		{open, "http://evil.example", false},
		{open, "http://localhost.evil.example", false},
		{open, "http://192.0.2.1", false},
		{open, "null", false},
		{open, "https://panel.example", true},
		{open, "https://panel.example:1", false},
		{withUsers, "http://panel.example", true},
	} {
		head := http.Header{}
		if c.origin != "" {
			head.Set("Origin", c.origin)
		}
		d := websocket.Dialer{Subprotocols: []string{"mqtt"}}
		ws, res, err := d.DialContext(t.Context(), "ws://"+c.b.WebSocketAddr().String(), head)
		if res != nil {
			res.Body.Close()
		}
		if err == nil {
			ws.Close()
		}
		if (err == nil) != c.in {
			t.Errorf("origin %q: %v, want to be let in: %v", c.origin, err, c.in)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Users: cast(t), Metrics: registry})
	if _, err := broker.Start(t.Context(), broker.Config{Metrics: registry}); err == nil {
		t.Error("two brokers report to one registry")
	}
	a := connect(t, inProcess(b), as("alice", "alice"))
	w := connect(t, inProcess(b), as("watch", "watch"))
	w.subscribe("#", 1)
	w.granted("padme/v1/default/node/alice/#", 1)
	a.publish("padme/v1/default/presence/alice", "here", 1, true)
	a.publish("elsewhere", "x", 1, false)
	w.receive(1)
	_, _ = dial(t, inProcess(b), as("alice", "wrong"))
	want := map[string]float64{
		"padme_broker_clients": 2, "padme_broker_sessions": 2, "padme_broker_subscriptions": 1,
		"padme_broker_retained_messages": 1, "padme_broker_messages_received_total": 1, "padme_broker_messages_sent_total": 1,
		"padme_broker_messages_dropped_total": 0, "padme_broker_refused_total/connect": 1,
		"padme_broker_refused_total/publish": 1, "padme_broker_refused_total/subscribe": 1, "padme_broker_unacknowledged_messages": 0,
	}
	var got map[string]float64
	poll.UntilOr(t, func() bool { // the last acknowledgement and disconnection are on their way
		got = gather(t, registry)
		for name, v := range want {
			if got[name] != v {
				return false
			}
		}
		return got["padme_broker_received_bytes_total"] > 100 && got["padme_broker_sent_bytes_total"] > 50
	}, func() string { return fmt.Sprintf("%v,\nwant %v", got, want) })
	stop(t, b)
	if len(gather(t, registry)) > 0 {
		t.Error("metrics are left")
	}
}

func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "/" + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// wantLimited waits until each limit was reached that often: what costs a client its
// connection is counted when that has ended.
func wantLimited(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	for limit, n := range want {
		reached := func() float64 { return gather(t, registry)["padme_broker_limited_total/"+limit] }
		poll.UntilOr(t, func() bool { return reached() == n },
			func() string { return fmt.Sprintf("%s was reached %v times, want %v", limit, reached(), n) })
	}
}
