package broker_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/capture"
	"padme/tests/poll"
)

// What never becomes a WebSocket is counted, and told once a minute, as what never becomes MQTT is
// on the TCP listener.
func TestWhatIsNoWebSocketIsCounted(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificates(t)
	clientTLS.ServerName = "127.0.0.1"
	for name, secure := range map[string]bool{"ws": false, "wss": true} {
		t.Run(name, func(t *testing.T) {
			registry, log := prometheus.NewRegistry(), &capture.Text{}
			cfg := broker.Config{
				WebSocket: "127.0.0.1:0", Metrics: registry, Logger: log.Logger(),
				Limits: broker.Limits{ConnectTimeout: time.Second},
			}
			if secure {
				cfg.TLS = serverTLS
			}
			b := start(t, cfg)
			say := func(opening string) {
				t.Helper()
				c, err := net.Dial("tcp", b.WebSocketAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if secure {
					c = tls.Client(c, clientTLS)
				}
				_, _ = io.WriteString(c, opening) // which may be cut off before its end
				(&rawConn{c, t}).gone()
			}
			const head = "GET / HTTP/1.1\r\nHost: x\r\n"
			counted := func(metric string, want float64) {
				t.Helper()
				poll.UntilOr(t, func() bool { return gather(t, registry)[metric] == want }, func() string {
					return metric + " has not been counted: " + log.String()
				})
			}
			for range 2 {
				say(head + "X-Slow:")
			}
			counted("padme_broker_limited_total/connect-timeout", 2)
			counted("padme_broker_cut_total/timeout", 2)
			for range 2 {
				say(head + "X-Long: " + strings.Repeat("x", 40<<10))
			}
			say(head + strings.Repeat("a:\r\n", 1000))
			counted("padme_broker_limited_total/max-connect-size", 3)
			counted("padme_broker_cut_total/oversized", 3)
			say("this is not HTTP\r\n\r\n")
			say(head + "\r\n")
			counted("padme_broker_cut_total/protocol", 2)
			d := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: clientTLS}
			_, answer, err := d.DialContext(t.Context(), b.URL(), http.Header{"X-Cookie": make([]string, 100)})
			if err == nil || answer == nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Fatalf("a hundred headers: %v, %v", answer, err)
			}
			_ = answer.Body.Close()
			for range 50 {
				ws, answer, err := d.DialContext(t.Context(), b.URL(), http.Header{"Origin": {"http://evil.example/" + strings.Repeat("x", 1000)}})
				if err == nil {
					_ = ws.Close()
				}
				if answer == nil || answer.StatusCode != http.StatusForbidden {
					t.Fatalf("a foreign page: %v, %v", answer, err)
				}
				_ = answer.Body.Close()
			}
			counted("padme_broker_refused_total/origin", 50)
			for _, told := range []string{"limit=connect-timeout address=127.0.0.1 ", "limit=max-connect-size address=127.0.0.1 ", "http://evil.example"} {
				if n := strings.Count(log.String(), told); n != 1 {
					t.Errorf("%q is told %d times: %s", told, n, log.String())
				}
			}
		})
	}
}
