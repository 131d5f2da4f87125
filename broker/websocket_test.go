package broker_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/poll"
)

// upgraded returns the TCP connection below a new WebSocket.
func upgraded(t *testing.T, b *broker.Broker) net.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}}
	ws, resp, err := d.DialContext(t.Context(), "ws://"+b.WebSocketAddr().String(), http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // empty
	t.Cleanup(func() { _ = ws.Close() })
	return ws.NetConn()
}

// frame is a frame of a client with up to 125 bytes, masked with zeros.
func frame(kind byte, payload []byte) []byte {
	return append([]byte{0x80 | kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// Frames without a byte for MQTT cost the broker as much as others. A stranger is cut off,
// and cannot ask for pages without an end either.
func TestStrangersAtTheWebSocket(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{ConnectTimeout: time.Hour}})
	for name, kind := range map[string]byte{"empty messages": websocket.BinaryMessage, "pings": websocket.PingMessage} {
		c := &rawConn{upgraded(t, b), t}
		go func() {
			for many := bytes.Repeat(frame(kind, nil), 1000); ; {
				if _, err := c.Write(many); err != nil {
					return
				}
			}
		}()
		t.Log(name)
		c.gone()
	}
	wantLimited(t, registry, map[string]float64{"max-connect-size": 2})
	c, err := net.Dial("tcp", b.WebSocketAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 3)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	all, err := io.ReadAll(bufio.NewReader(c))
	if n := bytes.Count(all, []byte("HTTP/1.1 400")); n != 1 {
		t.Errorf("%d answers, %v", n, err)
	}
}

// A ping is answered once the CONNECT was accepted.
func TestPingsOfStrangersAreNotAnswered(t *testing.T) {
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0"})
	c := upgraded(t, b)
	ping := frame(websocket.PingMessage, nil)
	login := frame(websocket.BinaryMessage, packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("c")))
	if _, err := c.Write(append(bytes.Clone(ping), login...)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	connack := make([]byte, 2+4)
	if _, err := io.ReadFull(c, connack); err != nil || connack[0] != 0x80|websocket.BinaryMessage {
		t.Fatal("the first frame is", connack, err)
	}
	if _, err := c.Write(ping); err != nil {
		t.Fatal(err)
	}
	pong := make([]byte, 2)
	if _, err := io.ReadFull(c, pong); err != nil || pong[0] != 0x80|websocket.PongMessage {
		t.Error("a ping is answered with", pong, err)
	}
}

// Who is known pays for such frames as for any others.
func TestFramesCountAgainstTheRateOfTheirUser(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: broker.Limits{UserRate: 100}})
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	c := upgraded(t, b)
	login := packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text("esp"), text("esp"), text("esp"))
	if _, err := c.Write(frame(websocket.BinaryMessage, login)); err != nil {
		t.Fatal(err)
	}
	connack := make([]byte, 2+4) // in a frame of its own
	if _, err := io.ReadFull(c, connack); err != nil || !bytes.Equal(connack[2:], []byte{0x20, 2, 0, 0}) {
		t.Fatal("CONNACK", connack, err)
	}
	go func() {
		for many := bytes.Repeat(frame(websocket.BinaryMessage, nil), 1000); ; {
			if _, err := c.Write(many); err != nil {
				return
			}
		}
	}()
	slowed := func() float64 { return gather(t, registry)["padme_broker_limited_total/max-user-rate"] }
	poll.UntilOr(t, func() bool { // bob says less than he may
		bob.publish("padme/v1/default/presence/bob", "here", 1, false)
		time.Sleep(25 * time.Millisecond)
		return slowed() > 0
	}, func() string { return "frames without a byte cost nothing" })
	_ = c.Close()
}

// A publisher waits for a WebSocket that takes nothing no longer than for a TCP connection.
func TestStalledWebSocketIsCutOff(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{WriteTimeout: 300 * time.Millisecond}})
	c := upgraded(t, b)
	for _, p := range [][]byte{
		packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("stalled")), packet(0x82, []byte{0, 1}, text("t"), []byte{1}),
	} {
		if _, err := c.Write(frame(websocket.BinaryMessage, p)); err != nil {
			t.Fatal(err)
		}
	}
	witness := connect(t, at(b.URL()))
	witness.subscribe("t", 1)
	big := strings.Repeat("x", 100_000)
	for range 200 { // more than the kernel buffers
		witness.publish("t", big, 1, false)
	}
	witness.receive(200)
	wantLimited(t, registry, map[string]float64{"write-timeout": 1})
}

// An answer does not repeat what an MQTT 5 client writes into its user properties.
func TestAnswersRepeatNoUserProperties(t *testing.T) {
	b := start(t, broker.Config{})
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text("c")))
	c.receive()
	user := bytes.Join([][]byte{{38}, text("k"), text("v")}, nil)
	for kind, answer := range map[byte]byte{0x82: 0x90, 0xa2: 0xb0} {
		filter := text("t")
		if kind == 0x82 {
			filter = append(filter, 0)
		}
		c.send(packet(kind, []byte{0, 1, byte(len(user))}, user, filter))
		if first, body := c.receive(); first != answer || len(body) != 4 || body[2] != 0 {
			t.Error(fmt.Sprintf("%#x", kind), "is answered with", first, body)
		}
	}
}

// A browser is told that the broker ends: in MQTT 5 by a DISCONNECT, and in each version by
// a close frame, without which its connection looks like a failure.
func TestABrowserIsToldThatTheBrokerEnds(t *testing.T) {
	for version, properties := range map[byte][]byte{4: nil, 5: {0}} {
		b := start(t, broker.Config{WebSocket: "127.0.0.1:0"})
		d := websocket.Dialer{Subprotocols: []string{"mqtt"}}
		ws, resp, err := d.DialContext(t.Context(), "ws://"+b.WebSocketAddr().String(), http.Header{})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // empty
		if err := ws.WriteMessage(websocket.BinaryMessage, packet(0x10, text("MQTT"), []byte{version, 2, 0, 60}, properties, text("c"))); err != nil {
			t.Fatal(err)
		}
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		if _, _, err := ws.ReadMessage(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- b.Close(t.Context()) }()
		var heard []byte
		for err == nil {
			var p []byte
			_, p, err = ws.ReadMessage()
			heard = append(heard, p...)
		}
		if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("MQTT version %d: %v", version, err)
		}
		if told := bytes.HasPrefix(heard, []byte{0xe0}) && heard[2] == 0x8b; told != (version == 5) {
			t.Errorf("MQTT version %d: %x before the end", version, heard)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = ws.Close()
	}
}
