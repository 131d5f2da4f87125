package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/tests/modules"
)

const patience = 15 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var page = fstest.MapFS{
	"index.html": {Data: []byte("<!doctype html><title>page</title>")},
	"page.js":    {Data: []byte("export const page = 1;\n")},
}

// serve serves the page with a bridge to an embedded broker.
func serve(t *testing.T) *Server {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return serveSite(t, Site{Files: page, Config: Config{Prefix: "padme", Domain: "default", User: "panel"}, Dial: func(ctx context.Context) (net.Conn, error) {
		return pubsub.DialBroker(ctx, b.URL(), nil)
	}})
}

func serveSite(t *testing.T, site Site) *Server {
	t.Helper()
	s, err := Serve(t.Context(), "127.0.0.1:0", site, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answer is what the server says to a request.
type answer struct {
	code int
	head http.Header
	body string
}

// get asks for a path, with a Host header if one is given.
func get(t *testing.T, s *Server, path, host string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.URL(), "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func TestFilesAndConfiguration(t *testing.T) {
	s := serve(t)
	for path, want := range map[string][2]string{
		"/":                  {"text/html; charset=utf-8", "<title>page"},
		"/page.js":           {"text/javascript; charset=utf-8", "page = 1"},
		"/base/locks.js":     {"text/javascript; charset=utf-8", "class Locks"},
		"/base/base.css":     {"text/css; charset=utf-8", ":root"},
		"/base/mqtt.esm.js":  {"text/javascript; charset=utf-8", "export default"},
		"/config.json":       {"application/json", `{"prefix":"padme","domain":"default","url":"","user":"panel"}`},
		"/nothing":           {"text/plain; charset=utf-8", "not found"},
		"/base/../server.go": {"text/plain; charset=utf-8", "not found"},
	} {
		a := get(t, s, path, "")
		if kind := a.head.Get("Content-Type"); kind != want[0] || !strings.Contains(a.body, want[1]) {
			t.Errorf("%s: %d %s %.60q, want %q", path, a.code, kind, a.body, want)
		}
		if policy := a.head.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}

func TestAnotherBrokerIsNamedInThePolicy(t *testing.T) {
	s := serveSite(t, Site{Files: page, Config: Config{URL: "wss://broker.example:9001/mqtt"}})
	a := get(t, s, "/config.json", "")
	if policy := a.head.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self' wss://broker.example:9001;") {
		t.Errorf("policy %q", policy)
	}
	if !strings.Contains(a.body, "wss://broker.example:9001/mqtt") {
		t.Errorf("configuration %s", a.body)
	}
	if a := get(t, s, "/mqtt", ""); a.code != http.StatusNotFound {
		t.Errorf("a bridge to nowhere answers %d", a.code)
	}
}

func TestBadSites(t *testing.T) {
	for _, where := range []string{"", "http://host", "mqtt://host:1883", "ws://", "ws://a;script-src"} {
		s, err := Serve(t.Context(), "127.0.0.1:0", Site{Files: page, Config: Config{URL: where}}, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
			t.Errorf("a site with the URL %q is served", where)
		}
	}
}

func TestForeignNamesAreRefused(t *testing.T) {
	s := serve(t)
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "localhost:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:80": 403, "192.0.2.1": 403, "localhost.evil.example": 403,
	} {
		if a := get(t, s, "/", host); a.code != want {
			t.Errorf("host %q: %d, want %d", host, a.code, want)
		}
	}
}

// dial opens the bridge as a page of the given origin does. It returns the code of
// the answer.
func dial(t *testing.T, s *Server, origin string) (*websocket.Conn, int, error) {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}, HandshakeTimeout: patience}
	head := http.Header{}
	if origin != "" {
		head.Set("Origin", origin)
	}
	ws, resp, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL(), "http")+"mqtt", head)
	if err == nil {
		t.Cleanup(func() { _ = ws.Close() })
		_ = ws.SetReadDeadline(time.Now().Add(patience))
	}
	if resp == nil {
		return ws, 0, err
	}
	_ = resp.Body.Close()
	return ws, resp.StatusCode, err
}

func own(s *Server) string { return strings.TrimSuffix(s.URL(), "/") }

// connectPacket is an MQTT 3.1.1 CONNECT of "page", with a clean session, which the
// broker keeps for ever.
var connectPacket = []byte("\x10\x10\x00\x04MQTT\x04\x02\x00\x00\x00\x04page")

// expect reads messages until what was said begins with want.
func expect(t *testing.T, ws *websocket.Conn, want string) {
	t.Helper()
	var said []byte
	for len(said) < len(want) {
		kind, m, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			t.Fatalf("%q, then %v, want %q", said, err, want)
		}
		said = append(said, m...)
	}
	if !bytes.HasPrefix(said, []byte(want)) {
		t.Fatalf("%q, want %q", said, want)
	}
}

func TestBridgeCarriesMQTT(t *testing.T) {
	s := serve(t)
	ws, _, err := dial(t, s, own(s))
	if err != nil {
		t.Fatal(err)
	}
	if ws.Subprotocol() != "mqtt" {
		t.Errorf("subprotocol %q", ws.Subprotocol())
	}
	// In two messages: their boundaries mean nothing.
	_ = ws.WriteMessage(websocket.BinaryMessage, connectPacket[:5])
	_ = ws.WriteMessage(websocket.BinaryMessage, connectPacket[5:])
	expect(t, ws, "\x20\x02\x00\x00")
	_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x82\x06\x00\x01\x00\x01t\x00")) // subscribe to t
	expect(t, ws, "\x90\x03\x00\x01\x00")
	big := bytes.Repeat([]byte("x"), 100_000) // more than a chunk
	publish := append([]byte("\x30\xa3\x8d\x06\x00\x01t"), big...)
	_ = ws.WriteMessage(websocket.BinaryMessage, publish)
	expect(t, ws, string(publish))
}

func TestBridgeIsForItsOwnPageOnly(t *testing.T) {
	s := serve(t)
	u, _ := url.Parse(s.URL())
	for _, origin := range []string{"", "null", "http://evil.example", "http://" + u.Hostname(), "http://" + u.Host + ".evil.example"} {
		if _, code, err := dial(t, s, origin); err == nil || code != http.StatusForbidden {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
}

func TestBridgeWithoutABroker(t *testing.T) {
	s := serveSite(t, Site{Files: page, Dial: func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }})
	if _, code, err := dial(t, s, own(s)); err == nil || code != http.StatusBadGateway {
		t.Errorf("%v", err)
	}
}

// TestBridgeIsBounded: whoever says nothing makes room, or else the one that has been silent for
// longest.
func TestBridgeIsBounded(t *testing.T) {
	s := serve(t)
	var all, silent []*websocket.Conn
	for range maxBridged {
		ws, _, err := dial(t, s, own(s))
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, ws)
	}
	for i := range maxBridged {
		ws, _, err := dial(t, s, own(s))
		if err != nil {
			t.Fatalf("those who say nothing keep others out: %v", err)
		}
		id := fmt.Sprintf("%04d", i) // with the same one, each would end the one before
		_ = ws.WriteMessage(websocket.BinaryMessage, bytes.Replace(connectPacket, []byte("page"), []byte(id), 1))
		expect(t, ws, "\x20\x02\x00\x00")
		all = append(all, ws)
	}
	for _, ws := range silent {
		if _, _, err := ws.ReadMessage(); err == nil {
			t.Error("a page that makes room is not cut off")
		}
	}
	const ping, pong = "\xc0\x00", "\xd0\x00"
	alive := func(ws *websocket.Conn) {
		t.Helper()
		_ = ws.WriteMessage(websocket.BinaryMessage, []byte(ping))
		expect(t, ws, pong)
	}
	alive(all[0])
	if _, _, err := dial(t, s, own(s)); err != nil {
		t.Fatalf("those who have logged in keep others out: %v", err)
	}
	if _, _, err := all[1].ReadMessage(); err == nil {
		t.Error("the one that has been silent for longest is not cut off")
	}
	alive(all[0])
	alive(all[2])
}

// TestAnAddressWithManyPagesCutsItselfOff: others keep their places, however silent.
func TestAnAddressWithManyPagesCutsItselfOff(t *testing.T) {
	b := newBridge(t.Context(), nil, slog.New(slog.DiscardHandler))
	begin := func(from string) *bridged {
		c := b.begin(addressOf(from))
		c.answered.Store(true)
		return c
	}
	var others []*bridged
	for i := range 10 {
		others = append(others, begin(fmt.Sprintf("192.0.2.%d:1", i)))
	}
	var many []*bridged
	for i := range 200 {
		many = append(many, begin(fmt.Sprintf("[2001:db8::%x]:1", i)))
	}
	for i := range 10 {
		others = append(others, begin(fmt.Sprintf("192.0.2.%d:2", i)))
	}
	for i, c := range others {
		if c.ctx.Err() != nil {
			t.Errorf("page %d of others is cut off", i)
		}
	}
	left := 0
	for _, c := range many {
		if c.ctx.Err() == nil {
			left++
		}
	}
	if left != maxBridged-len(others) {
		t.Errorf("%d of many pages are left, beside %d", left, len(others))
	}
	for _, c := range slices.Clone(b.bridged) {
		c.end()
	}
	b.close()
}

func TestCloseEndsTheBridge(t *testing.T) {
	s := serve(t)
	ws, _, err := dial(t, s, own(s))
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.WriteMessage(websocket.BinaryMessage, connectPacket)
	expect(t, ws, "\x20\x02\x00\x00")
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close waits for a connection that nobody ends")
	}
	if _, _, err := ws.ReadMessage(); err == nil {
		t.Error("the bridge goes on after the server was closed")
	}
	if _, _, err := dial(t, s, own(s)); err == nil {
		t.Error("the server listens after it was closed")
	}
	s.Close()
}

func TestOpenToOthers(t *testing.T) {
	site := Site{Files: page, Config: Config{URL: "ws://broker.example"}}
	if serveSite(t, site).Open() {
		t.Error("a page on loopback is told to be open to other machines")
	}
	s, err := Serve(t.Context(), ":0", site, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Open() || !strings.HasPrefix(s.URL(), "http://localhost:") {
		t.Errorf("a page for all is at %s, open %v", s.URL(), s.Open())
	}
}

func TestModules(t *testing.T) { modules.Test(t, "base/test/*.test.js") }
