package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// webSocketServer accepts MQTT over WebSocket on the broker's listener. Unlike
// mochi's it has bound its address before the broker has started, and bounds
// connections that never become WebSockets.
type webSocketServer struct {
	b        *Broker
	http     http.Server
	upgrader websocket.Upgrader
}

const (
	// leastHeaders is how many bytes of headers a request may have at least, cookies included.
	leastHeaders = 16 << 10
	// headersSlop is how much more net/http reads of them.
	headersSlop = 4096
)

// guestKey is under which a request's context has its guest.
type guestKey struct{}

func newWebSocketServer(b *Broker) *webSocketServer {
	s := &webSocketServer{b: b}
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: b.cfg.Limits.ConnectTimeout,
		Subprotocols:     []string{"mqtt"},
		CheckOrigin:      func(*http.Request) bool { return true }, // handle has asked welcome
	}
	s.http = http.Server{
		Handler:        http.HandlerFunc(s.handle),
		ReadTimeout:    b.cfg.Limits.ConnectTimeout,
		IdleTimeout:    b.cfg.Limits.ConnectTimeout,
		MaxHeaderBytes: max(leastHeaders, b.cfg.Limits.ConnectSize),
		ErrorLog:       log.New(handshakes{b}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, guestKey{}, guestOf(c))
		},
		ConnState: s.ended,
	}
	s.http.SetKeepAlivesEnabled(false) // one request, which becomes a WebSocket or is refused
	return s
}

// welcome reports whether the page that asks, if it is one, may connect. Where a password
// is needed any may: MQTT has its own credentials, nothing rides on a browser's cookies. But
// a browser shows its user's certificate for whatever page asks, and reaches a listener on
// loopback, where nobody need log in, for pages from elsewhere.
func (s *webSocketServer) welcome(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.b.cfg.Origins, origin) {
		return true
	}
	host := ""
	if u, err := url.Parse(origin); err == nil {
		host = u.Hostname()
	}
	a, _ := s.b.ws.Addr().(*net.TCPAddr)
	switch {
	case s.b.cfg.Users != nil && !s.b.cfg.CertificateUsers:
		return true
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return host != "" && host == (&url.URL{Host: r.Host}).Hostname()
	case s.b.cfg.Users == nil && a != nil && a.IP.IsLoopback():
		return host == "localhost" || net.ParseIP(host).IsLoopback()
	}
	return true
}

// handshakes reads what net/http logs: a failed TLS handshake is told nowhere else.
type handshakes struct{ *Broker }

func (h handshakes) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("TLS handshake error")) {
		h.counts.cut[cutTLS].Add(1)
		h.log.Info("connection closed before CONNECT", "listener", "websocket", "error", string(bytes.TrimSpace(p)))
	}
	return len(p), nil
}

func (s *webSocketServer) run() {
	var l net.Listener = doorListener{s.b.ws, s.b.door, true}
	if s.b.cfg.TLS != nil {
		conf := s.b.cfg.TLS.Clone()
		conf.NextProtos = []string{"http/1.1"}
		l = tls.NewListener(l, conf)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.b.log.Error("the WebSocket listener has ended", "error", err)
	}
}

// close closes the listener and what has not become a WebSocket.
func (s *webSocketServer) close() { _ = s.http.Close() }

// ended tells of a connection that has ended before there was a request: net/http tells of failed
// TLS handshakes only.
func (s *webSocketServer) ended(c net.Conn, state http.ConnState) {
	g := guestOf(c)
	if state != http.StateClosed || g == nil || g.asked.Load() || g.taken > g.door.most {
		return
	}
	late, address, cut := errors.Is(g.failed, os.ErrDeadlineExceeded), g.RemoteAddr().String(), &s.b.counts.cut
	if late {
		s.b.limited("connect-timeout", "", address)
	}
	if secure, ok := c.(*tls.Conn); ok && !secure.ConnectionState().HandshakeComplete {
		return // handshakes has counted it
	}
	switch {
	case late:
		cut[cutTimeout].Add(1)
	case g.failed != nil || g.taken == 0: // the client or the network has gone, or another one has got the place
	case g.taken >= s.http.MaxHeaderBytes+headersSlop:
		cut[cutOversized].Add(1)
		s.b.limited("max-connect-size", "", address)
	default:
		cut[cutProtocol].Add(1)
	}
}

func (s *webSocketServer) handle(w http.ResponseWriter, r *http.Request) {
	if g, _ := r.Context().Value(guestKey{}).(*guest); g != nil {
		g.asked.Store(true)
	}
	if !s.welcome(r) {
		s.b.counts.refusedOrigin.Add(1)
		s.b.access.tell("refused page", "", r.RemoteAddr, "connection refused: a page from elsewhere", "origin", r.Header.Get("Origin"),
			"remote", r.RemoteAddr, "remedy", "if the page may connect, list it in Config.Origins (--ws-origin)")
		http.Error(w, "a page from there may not connect", http.StatusForbidden)
		return
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil { // Upgrade has answered what was wrong
		s.b.counts.cut[cutProtocol].Add(1)
		s.b.log.Info("connection closed before CONNECT", "remote", r.RemoteAddr, "listener", "websocket", "error", err)
		return
	}
	raw := &webSocketConn{Conn: ws.NetConn(), ws: ws}
	c := newConn(raw, s.b.cfg.Limits)
	if err := s.b.enter(c); err != nil {
		_ = raw.Close()
		return
	}
	defer s.b.leave(c)
	answer := ws.PingHandler()
	ws.SetPingHandler(func(data string) error {
		if g := c.guest(); g != nil && !g.trusted.Load() {
			return nil // a system call for each six bytes of a stranger
		}
		c.readCost++ // as much as a packet
		if !c.buffer.idle() {
			return nil // one that does not read is not sent more: the next one may be answered
		}
		return answer(data)
	})
	s.b.serve(c, "websocket")
}

// webSocketConn reads a stream of binary messages, whose boundaries mean
// nothing in MQTT, and writes each write as one message.
type webSocketConn struct {
	net.Conn
	ws      *websocket.Conn
	message io.Reader // nil between messages
}

func (c *webSocketConn) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			kind, r, err := c.ws.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("a text message on an MQTT WebSocket: send binary ones")
			}
			c.message = r
		}
		n, err := c.message.Read(p)
		if errors.Is(err, io.EOF) {
			c.message, err = nil, nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (c *webSocketConn) Write(p []byte) (int, error) {
	if err := c.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// farewell says in WebSocket's own way that no more will come. To a browser a connection
// that just ends is a failure.
func (c *webSocketConn) farewell() {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(flushStall))
}
