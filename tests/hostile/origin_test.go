//go:build linux

package hostile

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"padme/tests/certs"
	"padme/tests/poll"
)

// webSocket is the address of the node's WebSocket listener.
func (n *node) webSocket(t *testing.T) (at string) {
	t.Helper()
	poll.Within(t, patience, "the address of the WebSockets", func() bool {
		found := regexp.MustCompile(`(?m)^ws +(\S+)$`).FindStringSubmatch(n.Printed())
		if found != nil {
			at = found[1]
		}
		return found != nil
	})
	return at
}

// A browser shows its user's certificate for whatever page asks. The node lets no page from elsewhere
// in by it, and other programs, and its own pages, all the same.
func TestPagesFromElsewhereHaveNoCertificate(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certs.New()
	ca := filepath.Join(dir, "ca.pem")
	if err := authority.Write(ca); err != nil {
		t.Fatal(err)
	}
	if err := certs.WritePair(dir, "host", authority.Issue("localhost", time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "--ws", "127.0.0.1:0", "--cert", filepath.Join(dir, "host.pem"), "--key", filepath.Join(dir, "host.key"),
		"--cafile", ca, "--use-identity-as-username", "--ws-origin", "https://panel.example")
	at := "wss://" + n.webSocket(t)
	alice := &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue("alice", time.Now().Add(time.Hour))}}
	for _, page := range []struct {
		origin string
		in     bool
	}{
		{"", true},
		{"https://127.0.0.1:8080", true},
		{"https://panel.example", true},
		{"https://evil.example", false},
		{"null", false},
		{"https://127.0.0.1.evil.example", false},
	} {
		head := http.Header{}
		if page.origin != "" {
			head.Set("Origin", page.origin)
		}
		d := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: alice}
		ws, answer, err := d.DialContext(t.Context(), at, head)
		if answer != nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != page.in || err != nil && (answer == nil || answer.StatusCode != http.StatusForbidden) {
			t.Errorf("a page from %q: %v, want it to be let in: %v", page.origin, err, page.in)
		}
		if err != nil {
			continue
		}
		// Whom the certificate names is in, without a password.
		if err := ws.WriteMessage(websocket.BinaryMessage, packet(0x10, str("MQTT"), []byte{4, 2, 0, 60}, str("page"+page.origin))); err != nil {
			t.Error(err)
		}
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		if _, connack, err := ws.ReadMessage(); err != nil || len(connack) != 4 || connack[3] != 0 {
			t.Errorf("a page from %q: CONNACK %v, %v", page.origin, connack, err)
		}
		_ = ws.Close()
	}
	poll.Within(t, patience, "three pages to be counted", func() bool { return n.sum(t, refused, `"origin"`) == 3 })
}
