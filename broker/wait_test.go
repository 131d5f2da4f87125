package broker_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"padme/broker"
)

// Clients of the listeners wait until Config.Wait is closed, and those of Dial do not.
func TestClientsWaitUntilTheyAreLetIn(t *testing.T) {
	wait := make(chan struct{})
	b := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Wait: wait})
	early := raw(t, b)
	early.send(packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("early")))
	browser, err := net.Dial("tcp", b.WebSocketAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer browser.Close()
	if _, err := browser.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	connect(t, inProcess(b)).subscribe("a", 1)
	for _, c := range []net.Conn{early, browser} {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes came, %v", n, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
	}
	close(wait)
	if first, body := early.receive(); first != 0x20 || body[1] != 0 {
		t.Errorf("CONNACK %#x %v", first, body)
	}
	if n, err := browser.Read(make([]byte, 1)); n == 0 {
		t.Errorf("nothing came: %v", err)
	}
}

// A broker that ends before that is closed ends all the same, with its listeners.
func TestABrokerEndsWhileItsClientsWait(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Wait: make(chan struct{})})
	addresses := []string{b.TCPAddr().String(), b.WebSocketAddr().String()}
	stop(t, b)
	for _, a := range addresses {
		if c, err := net.Dial("tcp", a); err == nil {
			_ = c.Close()
			t.Errorf("%s is still listened on", a)
		}
	}
}
