package broker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// leastHead is how many bytes the head of a request may have at least, cookies included.
	leastHead = 16 << 10
	// maxHeadLines is how many lines it may have. A browser sends some fifteen, and a proxy adds
	// a few.
	maxHeadLines = 64
)

// errForeignPage ends a connection of a page that may not connect.
var errForeignPage = errors.New("broker: a page from elsewhere")

var upgrader = websocket.Upgrader{
	Subprotocols: []string{"mqtt"},
	CheckOrigin:  func(*http.Request) bool { return true }, // welcome was asked
}

// welcome reports whether the page that asks, if it is one, may connect. Where a password
// is needed any may: MQTT has its own credentials, nothing rides on a browser's cookies. But
// a browser shows its user's certificate for whatever page asks, and reaches a listener on
// loopback, where nobody need log in, for pages from elsewhere.
func (b *Broker) welcome(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(b.cfg.Origins, origin) {
		return true
	}
	host := ""
	if u, err := url.Parse(origin); err == nil {
		host = u.Hostname()
	}
	a, _ := b.ws.Addr().(*net.TCPAddr)
	switch {
	case b.cfg.Users != nil && !b.cfg.CertificateUsers:
		return true
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return host != "" && host == (&url.URL{Host: r.Host}).Hostname()
	case b.cfg.Users == nil && a != nil && a.IP.IsLoopback():
		return host == "localhost" || net.ParseIP(host).IsLoopback()
	}
	return true
}

// upgrade reads the request of a WebSocket and answers it, if the connection is to be one. It is
// not left to an http.Server, which would read and write in goroutines of its own, and keep a
// connection that it refuses.
func (b *Broker) upgrade(c *conn) error {
	raw, ok := c.Conn.(*webSocketConn)
	if !ok {
		return nil
	}
	a := &answer{conn: raw.Conn, reader: bufio.NewReader(raw.Conn), header: http.Header{}}
	r, err := readRequest(a.reader, max(leastHead, b.cfg.Limits.ConnectSize))
	switch {
	case errors.Is(err, errOversized):
		http.Error(a, err.Error(), http.StatusRequestHeaderFieldsTooLarge)
		c.linger()
		return err
	case errors.Is(err, errNotMQTT):
		http.Error(a, err.Error(), http.StatusBadRequest)
		c.linger()
		return err
	case err != nil:
		return err
	}
	r.RemoteAddr = c.RemoteAddr().String()
	if secure, ok := c.tls(); ok {
		state := secure.ConnectionState()
		r.TLS = &state
	}
	if !b.welcome(r) {
		b.counts.refusedOrigin.Add(1)
		b.access.tell("refused page", "", r.RemoteAddr, "connection refused: a page from elsewhere", "origin", r.Header.Get("Origin"),
			"remote", r.RemoteAddr, "remedy", "if the page may connect, list it in Config.Origins (--ws-origin)")
		http.Error(a, "a page from there may not connect", http.StatusForbidden)
		c.linger()
		return errForeignPage
	}
	ws, err := upgrader.Upgrade(a, r, nil)
	if err != nil { // Upgrade has answered what was wrong
		return fmt.Errorf("%w: %w", errNotMQTT, err)
	}
	_ = c.SetReadDeadline(c.due) // Upgrade has taken it away
	if g := c.guest(); g != nil {
		g.answer = c.answerPing
	}
	c.pong = ws.PingHandler()
	ws.SetPingHandler(func(data string) error {
		if g := c.guest(); g != nil && !g.trusted.Load() {
			return nil // a system call for each six bytes of a stranger
		}
		c.readCost++ // as much as a packet
		c.pinged, c.pingData = true, data
		return nil
	})
	raw.ws = ws
	return nil
}

// answerPing answers the newest ping of a WebSocket before more is read, as RFC 6455 allows (5.5.3):
// each answer is a system call, and 2 KB hold 340 pings. One that does not read is not sent more: the
// next one may be answered.
func (c *conn) answerPing() {
	if !c.pinged {
		return
	}
	c.pinged = false
	if c.buffer.idle() {
		_ = c.pong(c.pingData)
	}
}

// readRequest reads the head of a request as a whole, so that a stranger costs its bytes only:
// net/http makes twenty times as much of headers without a value.
func readRequest(from *bufio.Reader, most int) (*http.Request, error) {
	var head bytes.Buffer // grows with what comes
	for lines := 0; !bytes.HasSuffix(head.Bytes(), []byte("\n\r\n")) && !bytes.HasSuffix(head.Bytes(), []byte("\n\n")); {
		part, err := from.ReadSlice('\n')
		head.Write(part)
		switch {
		case err == nil:
			lines++
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if lines > maxHeadLines || head.Len() > most {
			return nil, fmt.Errorf("%w: a request of %d lines and %d bytes: the limits are %d and %d", errOversized, lines, head.Len(), maxHeadLines, most)
		}
	}
	r, err := http.ReadRequest(bufio.NewReader(&head))
	if err != nil { // which quotes all of it
		return nil, fmt.Errorf("%w: the request is not HTTP: %.100q", errNotMQTT, err.Error())
	}
	return r, nil
}

// answer is what a request gets: a WebSocket, or an error.
type answer struct {
	conn   net.Conn
	reader *bufio.Reader
	header http.Header
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\nConnection: close\r\n", code, http.StatusText(code))
	_ = a.header.Write(&head)
	head.WriteString("\r\n")
	_, _ = a.conn.Write(head.Bytes())
}

func (a *answer) Write(p []byte) (int, error) { return a.conn.Write(p) }

// Hijack gives the connection to the WebSocket.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return a.conn, bufio.NewReadWriter(a.reader, bufio.NewWriter(a.conn)), nil
}

// webSocketConn reads a stream of binary messages, whose boundaries mean
// nothing in MQTT, and writes each write as one message.
type webSocketConn struct {
	net.Conn
	ws      *websocket.Conn // nil before the request was answered
	message io.Reader       // nil between messages
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
