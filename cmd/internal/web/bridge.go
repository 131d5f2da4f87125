package web

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// maxBridged bounds the pages that are connected at a time. The oldest to which the
	// broker has said nothing yet makes room for another; if there is none, of the address
	// that has the most pages the one that has been silent for longest.
	maxBridged = 64
	// maxFrame bounds one WebSocket message of a page, in bytes. It writes little.
	maxFrame = 1 << 20
	// chunk is how much of what the broker says is carried at once.
	chunk = 32 << 10
	// dialWithin bounds connecting to the broker, writeWithin how long a page or the
	// broker may take no byte before the connection is given up.
	dialWithin  = 5 * time.Second
	writeWithin = 20 * time.Second
)

// bridge carries MQTT between WebSockets of our own page and the broker. It does
// not look into it. Who reads slowly is waited for: nothing is kept but the chunk
// on its way.
type bridge struct {
	ctx      context.Context
	close    context.CancelFunc
	dial     func(context.Context) (net.Conn, error)
	log      *slog.Logger
	upgrader websocket.Upgrader

	mu      sync.Mutex // held to begin while the bridge may be closing
	bridged []*bridged // the oldest first
	running sync.WaitGroup
}

// bridged is the connection of a page.
type bridged struct {
	ctx      context.Context
	end      context.CancelFunc
	from     string       // address of its page
	answered atomic.Bool  // by the broker
	heard    atomic.Int64 // when its page has last said something, in ns of the wall clock
}

func newBridge(ctx context.Context, dial func(context.Context) (net.Conn, error), log *slog.Logger) *bridge {
	b := &bridge{dial: dial, log: log}
	ctx, cancel := context.WithCancel(ctx)
	b.ctx = ctx
	b.close = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		cancel()
	}
	b.upgrader = websocket.Upgrader{
		HandshakeTimeout: dialWithin,
		ReadBufferSize:   chunk,
		WriteBufferSize:  chunk,
		Subprotocols:     []string{"mqtt"},
		CheckOrigin:      sameOrigin,
	}
	return b
}

// sameOrigin lets our own page in and nobody else's. A request without an origin is
// no page's: other clients find the broker themselves.
func sameOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// begin counts a connection in, unless the bridge is closing: then it returns nil.
func (b *bridge) begin(from string) *bridged {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return nil
	}
	if len(b.bridged) >= maxBridged {
		i := b.leastNeeded(from)
		b.log.Debug("too many pages are connected: one is cut off for another", "most", maxBridged, "of", b.bridged[i].from, "for", from)
		b.bridged[i].end()
		b.bridged = slices.Delete(b.bridged, i, i+1)
	}
	c := &bridged{from: from}
	c.heard.Store(time.Now().UnixNano())
	c.ctx, c.end = context.WithCancel(b.ctx)
	b.bridged = append(b.bridged, c)
	b.running.Add(1)
	return c
}

// leastNeeded is the connection that makes room for another one, from that address. Whoever
// has many cuts off itself.
func (b *bridge) leastNeeded(from string) int {
	if i := slices.IndexFunc(b.bridged, func(c *bridged) bool { return !c.answered.Load() }); i >= 0 {
		return i
	}
	pages := map[string]int{from: 1}
	for _, c := range b.bridged {
		pages[c.from]++
	}
	least := 0
	for i, c := range b.bridged {
		l := b.bridged[least]
		if pages[c.from] > pages[l.from] || pages[c.from] == pages[l.from] && c.heard.Load() < l.heard.Load() {
			least = i
		}
	}
	return least
}

// addressOf is whose connection it is: of IPv6 the network, in which a host takes any address.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if network, err := ip.Prefix(64); err == nil && ip.Is6() && !ip.IsLoopback() {
		return network.String()
	}
	return ip.String()
}

func (b *bridge) end(c *bridged) {
	c.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bridged = slices.DeleteFunc(b.bridged, func(o *bridged) bool { return o == c })
	b.running.Done()
}

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		http.Error(w, "only the page of this server may use its bridge", http.StatusForbidden)
		return
	}
	c := b.begin(addressOf(r.RemoteAddr))
	if c == nil {
		http.Error(w, "the server ends", http.StatusServiceUnavailable)
		return
	}
	defer b.end(c)
	ctx, cancel := context.WithTimeout(c.ctx, dialWithin)
	broker, err := b.dial(ctx)
	cancel()
	if err != nil {
		b.log.Info("the broker cannot be reached for a page", "error", err)
		http.Error(w, "the broker cannot be reached", http.StatusBadGateway)
		return
	}
	defer broker.Close()
	page, err := b.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered what was wrong
	}
	defer page.Close()
	c.carry(page, broker)
}

// carry returns when either side has ended, or the bridge, or another page needs the room.
func (c *bridged) carry(page *websocket.Conn, broker net.Conn) {
	hangUp := func() {
		_ = page.Close()
		_ = broker.Close()
	}
	defer context.AfterFunc(c.ctx, hangUp)()
	down := make(chan struct{})
	go func() {
		defer close(down)
		defer hangUp()
		c.toPage(page, broker)
	}()
	c.toBroker(broker, page)
	hangUp()
	<-down
}

func (c *bridged) toPage(page *websocket.Conn, broker net.Conn) {
	buffer := make([]byte, chunk)
	for {
		n, err := broker.Read(buffer)
		if n > 0 {
			c.answered.Store(true)
			_ = page.SetWriteDeadline(time.Now().Add(writeWithin))
			if page.WriteMessage(websocket.BinaryMessage, buffer[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *bridged) toBroker(broker net.Conn, page *websocket.Conn) {
	page.SetReadLimit(maxFrame)
	buffer := make([]byte, chunk)
	for {
		kind, message, err := page.NextReader()
		if err != nil || kind != websocket.BinaryMessage {
			return
		}
		c.heard.Store(time.Now().UnixNano())
		if _, err := io.CopyBuffer(deadlined{broker}, message, buffer); err != nil {
			return
		}
	}
}

// deadlined gives each write its time.
type deadlined struct{ conn net.Conn }

func (d deadlined) Write(p []byte) (int, error) {
	_ = d.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	return d.conn.Write(p)
}
