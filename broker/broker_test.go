package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/tests/extent"
	"padme/tests/poll"
)

func TestTransports(t *testing.T) {
	serverTLS, clientTLS := certificates(t)
	for _, tc := range []struct {
		name   string
		cfg    broker.Config
		scheme string
	}{
		{"tcp", broker.Config{TCP: "127.0.0.1:0"}, "mqtt://"},
		{"any address", broker.Config{TCP: ":0"}, "mqtt://127.0.0.1:"},
		{"tls", broker.Config{TCP: "127.0.0.1:0", TLS: serverTLS}, "mqtts://"},
		{"websocket", broker.Config{WebSocket: "127.0.0.1:0"}, "ws://"},
		{"secure websocket", broker.Config{WebSocket: "127.0.0.1:0", TLS: serverTLS}, "wss://"},
		{"in process", broker.Config{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := start(t, tc.cfg)
			if !strings.HasPrefix(b.URL(), tc.scheme) || (tc.scheme == "") != (b.URL() == "") {
				t.Fatalf("URL %q, want %s…", b.URL(), tc.scheme)
			}
			where := at(b.URL())
			if tc.scheme == "" {
				where = inProcess(b)
			}
			sub := connect(t, where, trust(clientTLS))
			pub := connect(t, where, trust(clientTLS))
			sub.subscribe("greeting/+", 1)
			big := strings.Repeat("x", 300_000)
			pub.publish("greeting/a", "hello", 1, false)
			pub.publish("greeting/b", big, 1, false)
			if got := sub.receive(2); got[0] != "hello" || got[1] != big {
				t.Errorf("received %d messages of %d and %d bytes", len(got), len(got[0]), len(got[1]))
			}
		})
	}
}

func TestAddressesAreNilWithoutListeners(t *testing.T) {
	b := start(t, broker.Config{})
	if b.TCPAddr() != nil || b.WebSocketAddr() != nil {
		t.Errorf("addresses %v and %v", b.TCPAddr(), b.WebSocketAddr())
	}
	both := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0"})
	if both.TCPAddr().(*net.TCPAddr).Port == 0 || both.WebSocketAddr().(*net.TCPAddr).Port == 0 {
		t.Errorf("addresses %v and %v", both.TCPAddr(), both.WebSocketAddr())
	}
}

func TestBadConfig(t *testing.T) {
	taken := start(t, broker.Config{TCP: "127.0.0.1:0"}).TCPAddr().String()
	serverTLS, _ := certificates(t)
	serverTLS.Certificates = nil
	dir, noFile := t.TempDir(), t.TempDir()
	start(t, broker.Config{DataDir: dir})
	if err := os.Mkdir(filepath.Join(noFile, "lock"), 0o700); err != nil { // refused also for root
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		cfg  broker.Config
		want error
		text string
	}{
		{"port in use", broker.Config{TCP: taken}, broker.ErrListen, taken},
		{"WebSocket port in use", broker.Config{TCP: "127.0.0.1:0", WebSocket: taken}, broker.ErrListen, taken},
		{"no address", broker.Config{TCP: "nonsense"}, broker.ErrListen, "nonsense"},
		{"wildcard prefix", broker.Config{Prefix: "a/+"}, broker.ErrInvalidConfig, "Prefix"},
		{"empty level", broker.Config{Prefix: "/a"}, broker.ErrInvalidConfig, "Prefix"},
		{"TLS without certificate", broker.Config{TCP: "127.0.0.1:0", TLS: serverTLS}, broker.ErrInvalidConfig, "certificate"},
		{"negative limit", broker.Config{Limits: broker.Limits{Clients: -1}}, broker.ErrInvalidConfig, "Clients"},
		{"queue", broker.Config{Limits: broker.Limits{Queue: 70000}}, broker.ErrInvalidConfig, "Queue"},
		{"packet size", broker.Config{Limits: broker.Limits{PacketSize: 3}}, broker.ErrInvalidConfig, "PacketSize"},
		{"data directory in use", broker.Config{DataDir: dir}, broker.ErrStore, dir + " is in use: is another broker running"},
		{"data directory in which no file can be opened", broker.Config{DataDir: noFile}, broker.ErrStore, "directory: give a directory that has room and that this user may write to"},
		{"data directory is a file", broker.Config{DataDir: "broker_test.go"}, broker.ErrStore, "broker_test.go"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := broker.Start(context.Background(), tc.cfg)
			if err == nil {
				stop(t, b)
			}
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("error %v, want %v that names %q", err, tc.want, tc.text)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := broker.Start(ctx, broker.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: %v", err)
	}
}

func TestCloseWithClients(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	var clients []*client
	for range 5 {
		c := connect(t, at(b.URL()))
		c.subscribe("#", 1)
		clients = append(clients, c, connect(t, inProcess(b)))
	}
	silent, err := net.Dial("tcp", b.TCPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	pipe, err := b.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 { // idempotent, and concurrent
		wg.Go(func() { stop(t, b) })
	}
	wg.Wait()
	for _, c := range clients {
		select {
		case <-c.lost:
		case <-time.After(patience):
			t.Fatal("a client is still connected")
		}
	}
	if _, err := pipe.Read(make([]byte, 1)); err == nil {
		t.Error("an in-process connection is still open")
	}
	if _, err := b.Dial(context.Background()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Dial after Close: %v", err)
	}
	if _, err := net.Dial("tcp", b.TCPAddr().String()); err == nil {
		t.Error("still listening")
	}
}

func TestTooManyClients(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Clients: 2}})
	one := connect(t, inProcess(b))
	connect(t, inProcess(b))
	if _, err := b.Dial(context.Background()); !errors.Is(err, broker.ErrTooManyClients) {
		t.Errorf("a third: %v", err)
	}
	one.Disconnect(0)
	poll.UntilOr(t, func() bool {
		c, err := b.Dial(context.Background())
		if err == nil {
			c.Close()
		}
		return err == nil
	}, func() string { return "the place of one that left stays taken" })
}

// mochi alone delivers a fifth of these.
func TestNothingAcknowledgedIsDropped(t *testing.T) {
	extent.Long(t, "tens of thousands of messages")
	t.Parallel()
	publishers, each := 8, 10_000
	if raceDetector {
		each = 2000
	}
	// A ping stands in line behind all that was published before it.
	patient := func(o *paho.ClientOptions) { o.SetKeepAlive(5 * time.Minute) }
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	sub := connect(t, at(b.URL()), patient)
	sub.subscribe("flood/#", 1)
	var wg sync.WaitGroup
	for p := range publishers {
		pub := connect(t, at(b.URL()), patient)
		wg.Go(func() {
			var tokens []paho.Token
			for i := range each {
				tokens = append(tokens, pub.Publish(fmt.Sprint("flood/", p), 1, false, fmt.Sprintf("%d %05d", p, i)))
			}
			for _, token := range tokens {
				if !token.WaitTimeout(3*patience) || token.Error() != nil {
					t.Errorf("not acknowledged: %v", token.Error())
					return
				}
			}
		})
	}
	wg.Wait()
	got := sub.receive(publishers * each)
	if len(got) != publishers*each {
		t.Fatalf("%d messages delivered", len(got))
	}
	for p := range publishers {
		from := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s[0] != byte('0'+p) })
		if len(from) != each || !slices.IsSorted(from) {
			t.Errorf("publisher %d: %d messages, in order: %v", p, len(from), slices.IsSorted(from))
		}
	}
}
