package broker_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
)

func TestSlowLorisIsCutOff(t *testing.T) {
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

func TestStalledSubscriberIsCutOff(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	stalled := raw(t, b)
	stalled.connect("stalled", "", "end", "stalled")
	stalled.send(packet(0x82, []byte{0, 1}, text("t"), []byte{1}))
	healthy := connect(t, at(b.URL()))
	healthy.subscribe("t", 1)
	healthy.subscribe("end", 1)
	pub := connect(t, at(b.URL()))
	big := strings.Repeat("x", 100_000)
	const n = 200 // more than the kernel buffers
	for range n {
		pub.publish("t", big, 1, false)
	}
	healthy.receive(n + 1)
	stalled.gone()
}

// What goes on being sent to a client that takes nothing does not keep it.
func TestStalledSubscriberIsCutOffWhateverIsSent(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	stalled := raw(t, b)
	stalled.connect("stalled", "", "end", "stalled")
	stalled.send(packet(0x82, []byte{0, 1}, text(toBob), []byte{0}))
	stalled.receive()
	healthy := connect(t, at(b.URL()))
	healthy.subscribe("end", 1)
	pub := connect(t, at(b.URL()))
	for range 600 { // more than the kernel buffers
		pub.publish(toBob, strings.Repeat("x", 10_000), 0, false)
	}
	eventually(t, func() bool {
		pub.publish(toBob, "x", 0, false)
		time.Sleep(10 * time.Millisecond)
		return len(healthy.payloads()) > 0
	}, func() string { return "it is still there" })
}

// Pings of one that reads nothing do not keep it, nor make the broker keep their answers.
func TestPingsOfOneThatDoesNotRead(t *testing.T) {
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}}
	ws, answer, err := d.Dial("ws://"+b.WebSocketAddr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	defer func() { _ = ws.Close() }()
	stalled := packet(0x10, text("MQTT"), []byte{4, 2 | 4 | 8, 0, 0}, text("stalled"), text("end"), text("stalled"))
	for _, p := range [][]byte{stalled, packet(0x82, []byte{0, 1}, text("big"), []byte{0})} {
		if err := ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
			t.Fatal(err)
		}
	}
	healthy := connect(t, inProcess(b))
	healthy.subscribe("end", 1)
	eventually(t, func() bool {
		healthy.publish("big", strings.Repeat("x", 100_000), 1, false)
		_ = ws.WriteControl(websocket.PingMessage, make([]byte, 125), time.Now().Add(time.Second))
		time.Sleep(10 * time.Millisecond)
		return len(healthy.payloads()) > 0
	}, func() string { return "it is still there" })
}

// Publishers wait for all connections of a user that acknowledge nothing no longer than for
// one: for twenty, one after the other, it would be a minute and a half here.
func TestPublishersWaitForAUserOnce(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{Queue: 16, WriteTimeout: patience / 4}})
	const topic = "padme/v1/default/data/p/t/k/bob/w"
	for i := range 20 {
		c := raw(t, b)
		c.connect(fmt.Sprint("lags", i), "alice", "", "")
		c.subscribe(4, topic)
	}
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 40 {
		bob.publish(topic, "x", 1, false)
	}
}

// Nor does another connection of that user, which acknowledges, win it any time.
func TestPublishersWaitForNobodyElsesProgress(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{Queue: 16, WriteTimeout: patience / 10}})
	const topic, own = "padme/v1/default/data/p/t/k/bob/w", "padme/v1/default/data/p/t/k/alice/w"
	lags := raw(t, b)
	lags.connect("lags", "alice", "", "")
	lags.subscribe(4, topic)
	busy, done := connect(t, at(b.URL()), as("alice", "alice")), make(chan struct{})
	busy.subscribe(own, 1)
	var flood sync.WaitGroup
	flood.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				busy.Publish(own, 1, false, "x").WaitTimeout(patience)
			}
		}
	})
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 40 {
		bob.publish(topic, "x", 1, false)
	}
	close(done)
	flood.Wait()
}

// No publisher waits for a socket that takes nothing: here it would be for an hour.
func TestNoPublisherWaitsForASocket(t *testing.T) {
	server, client := certificates(t)
	for name, conf := range map[string]*tls.Config{"tcp": nil, "tls": server} {
		t.Run(name, func(t *testing.T) {
			b := start(t, broker.Config{TCP: "127.0.0.1:0", TLS: conf, Limits: broker.Limits{WriteTimeout: time.Hour}})
			stalled := raw(t, b)
			if conf != nil {
				stalled.Conn = tls.Client(stalled.Conn, &tls.Config{RootCAs: client.RootCAs, ServerName: "127.0.0.1"})
			}
			stalled.connect("stalled", "", "", "")
			stalled.send(packet(0x82, []byte{0, 1}, text("big"), []byte{0}, text("small"), []byte{1}))
			stalled.receive()
			pub := connect(t, inProcess(b))
			for range 200 { // more than the kernel buffers
				pub.publish("big", strings.Repeat("x", 100_000), 1, false)
			}
			for range 100 {
				pub.publish("small", "x", 1, false)
			}
		})
	}
}

// No publisher waits for an observer, whatever that has subscribed to, which is cut off when
// its queue is full: the broker would wait an hour here.
func TestStalledObserversDelayNobody(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{WriteTimeout: time.Hour}})
	var observers []*rawConn
	for i := range 3 {
		o := raw(t, b)
		o.connect(fmt.Sprint("o", i), "watch", "", "")
		if codes := o.subscribe(4, "#"); !bytes.Equal(codes, []byte{0}) {
			t.Fatalf("granted QoS %v, want 0", codes)
		}
		observers = append(observers, o)
	}
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	bob.subscribe("padme/v1/default/data/#", 1)
	alice := connect(t, at(b.URL()), as("alice", "alice"))
	big := strings.Repeat("x", 100_000)
	for range 200 { // more than the kernel buffers
		alice.publish("padme/v1/default/data/p/t/k/alice/w", big, 1, false)
	}
	bob.receive(200)
	for range 9_000 { // more than mochi keeps for one connection
		alice.publish("padme/v1/default/data/p/t/k/alice/w", "x", 1, false)
	}
	bob.receive(9_200)
	for _, o := range observers {
		o.gone()
	}
}

// A client which reads but never acknowledges fills its queue.
func TestSilentSubscriberIsCutOff(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Queue: 100, WriteTimeout: 300 * time.Millisecond}})
	c := raw(t, b)
	c.connect("silent", "", "", "")
	c.send(packet(0x82, []byte{0, 1}, text("t"), []byte{1}))
	c.receive() // SUBACK: it gets all that is published from here on
	pub := connect(t, inProcess(b))
	published := make(chan struct{})
	go func() {
		defer close(published)
		for range 200 {
			pub.publish("t", "x", 1, false)
		}
	}()
	c.gone()
	<-published
}

// What a user does not acknowledge is bounded by its bytes, too: a connection that holds more
// of them than its part is cut off, one of the same user that acknowledges gets everything.
func TestUnacknowledgedBytesAreBounded(t *testing.T) {
	const topic = "padme/v1/default/presence/bob"
	registry := prometheus.NewRegistry()
	limits := broker.Limits{UserQueue: 100_000, WriteTimeout: 300 * time.Millisecond}
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: limits})
	silent := raw(t, b)
	silent.connect("silent", "alice", "", "")
	silent.subscribe(4, topic)
	acknowledges := connect(t, at(b.URL()), as("alice", "alice"))
	acknowledges.subscribe(topic, 1)
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 50 {
		bob.publish(topic, strings.Repeat("x", 10_000), 1, false)
	}
	silent.gone()
	acknowledges.receive(50)
	wantLimited(t, registry, map[string]float64{"max-user-queue": 1, "write-timeout": 1})
	for range 50 { // nothing of it counts any more
		bob.publish(topic, strings.Repeat("x", 10_000), 1, false)
	}
	acknowledges.receive(100)
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
	eventually(t, func() bool { return len(c.payloads()) > 5 }, func() string { return "no statistics" })
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
	eventually(t, func() bool { // the last acknowledgement and disconnection are on their way
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
		eventually(t, func() bool { return reached() == n },
			func() string { return fmt.Sprintf("%s was reached %v times, want %v", limit, reached(), n) })
	}
}
