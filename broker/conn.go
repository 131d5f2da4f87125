package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// conn is the broker's end of a client's connection. It adds the deadlines that
// mochi lacks and carries what the hooks remember about a connected client.
type conn struct {
	net.Conn
	patience atomic.Int64 // nanoseconds that one write may take

	mu       sync.Mutex // of deadline and afterwards
	deadline time.Time  // of writing, renewed when half of it is gone

	head []byte // of the CONNECT, read before mochi reads

	greeted    chan struct{} // closed when the session is resumed, or never will be
	greet      func()        // closes it
	afterwards func()        // see whenGreeted; guarded by mu

	client   atomic.Pointer[mqtt.Client] // once its CONNECT was accepted
	pending  atomic.Int64                // QoS 1 messages on the way to the socket
	progress atomic.Int64                // grows when one of them leaves or is acknowledged
	warned   atomic.Bool                 // a refusal was logged

	// shadowed is a delivery whose packet id the client happens to use for a
	// packet of its own; only the client's reading goroutine touches it.
	shadowed *packets.Packet
}

func newConn(raw net.Conn, l Limits) *conn {
	c := &conn{Conn: raw, greeted: make(chan struct{})}
	c.greet = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.greeted)
		if c.afterwards != nil {
			c.afterwards()
		}
	})
	c.patience.Store(int64(l.WriteTimeout))
	_ = raw.SetReadDeadline(time.Now().Add(l.ConnectTimeout)) // until mochi sets the keepalive's
	return c
}

// connOf returns the connection of a client, or nil for one that was restored
// from disk or lives in the broker.
func connOf(cl *mqtt.Client) *conn {
	c, _ := cl.Net.Conn.(*conn)
	return c
}

// readHead reads the fixed header of the first packet, so that a stranger's
// length is judged by a smaller measure than a client's and costs a stranger
// its connection before mochi spends 70 KB on it.
func (c *conn) readHead() error {
	var b [1]byte
	for len(c.head) < 5 {
		if _, err := io.ReadFull(c.Conn, b[:]); err != nil {
			return err
		}
		c.head = append(c.head, b[0])
		if c.head[0]&0xf0 != packets.Connect<<4 {
			return fmt.Errorf("%w: the first packet is no CONNECT: is this an MQTT client, and does it agree with us on TLS?", errNotMQTT)
		}
		if len(c.head) == 1 || b[0]&0x80 != 0 {
			continue
		}
		length := 0
		for i, v := range c.head[1:] {
			length |= int(v&0x7f) << (7 * i)
		}
		if length > maxConnectSize {
			return fmt.Errorf("%w: a CONNECT of %d bytes: the limit is %d", errOversized, length, maxConnectSize)
		}
		return nil
	}
	return fmt.Errorf("%w: the length of the first packet is malformed", errNotMQTT)
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Write writes p as a whole or closes the connection: mochi would go on in the
// middle of a packet.
func (c *conn) Write(p []byte) (int, error) {
	c.renewDeadline()
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

func (c *conn) renewDeadline() {
	patience := time.Duration(c.patience.Load())
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.Sub(now) < patience/2 {
		c.deadline = now.Add(patience)
		_ = c.Conn.SetWriteDeadline(c.deadline)
	}
}

// hurry shortens the patience of the present and all later writes.
func (c *conn) hurry(d time.Duration) {
	c.patience.Store(int64(d))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = time.Now().Add(d)
	_ = c.Conn.SetWriteDeadline(c.deadline)
}

// whenGreeted calls f when greeted is closed, or now if it is.
func (c *conn) whenGreeted(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.greeted:
		f()
	default:
		c.afterwards = f
	}
}

func (c *conn) Close() error {
	c.greet()
	return c.Conn.Close()
}

// SetDeadline is mochi's keepalive. It bounds reading only: a client with a
// long keepalive must not stall its publishers for as long.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// admit serves a new connection in a goroutine of its own, or closes it.
func (b *Broker) admit(raw net.Conn, listener string) error {
	c := newConn(raw, b.cfg.Limits)
	if err := b.enter(c); err != nil {
		_ = raw.Close()
		return err
	}
	go func() {
		defer b.leave(c)
		b.serve(c, listener)
	}()
	return nil
}

func (b *Broker) enter(c *conn) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return ErrClosed
	}
	if len(b.conns) >= b.cfg.Limits.Clients {
		b.counts.refusedConnect.Add(1)
		b.log.Warn("connection refused: too many clients", "limit", b.cfg.Limits.Clients, "remote", c.RemoteAddr())
		return ErrTooManyClients
	}
	b.conns[c] = struct{}{}
	b.work.Add(1)
	return nil
}

func (b *Broker) leave(c *conn) {
	_ = c.Close()
	b.mu.Lock()
	delete(b.conns, c)
	b.mu.Unlock()
	b.work.Done()
}

// serve runs a connection to its end.
func (b *Broker) serve(c *conn, listener string) {
	log := b.log.With("remote", c.RemoteAddr(), "listener", listener)
	defer func() {
		// mochi indexes some packets before it has checked their length.
		if r := recover(); r != nil {
			log.Error("a packet broke its decoder; the client was disconnected", "panic", r, "stack", string(debug.Stack()))
			b.counts.cut[cutProtocol].Add(1)
			b.bury(c)
		}
	}()
	if err := c.shakeHands(); err != nil {
		b.counts.cut[cutTLS].Add(1)
		log.Info("connection closed before CONNECT", "error", err)
		return
	}
	if err := c.readHead(); err != nil {
		b.counts.noteCut(err)
		if !errors.Is(err, io.EOF) {
			log.Info("connection closed before CONNECT", "error", err)
		}
		return
	}
	err := b.server.EstablishConnection(listener, c)
	b.counts.noteCut(err)
	if cl := c.client.Load(); cl != nil {
		log.Debug("client disconnected", "client", cl.ID, "error", err)
	} else if err != nil {
		log.Info("connection refused", "error", err)
	}
}

// bury ends a session in mochi's stead after a panic in its connection.
func (b *Broker) bury(c *conn) {
	cl := c.client.Load()
	if cl == nil || cl.IsTakenOver() {
		return
	}
	cl.Stop(packets.ErrMalformedPacket)
	b.flow.sendWill(cl)
	for _, h := range b.hooks {
		h.OnDisconnect(cl, packets.ErrMalformedPacket, !outlives(cl))
	}
	if !outlives(cl) {
		cl.ClearInflights()
		b.server.UnsubscribeClient(cl)
		b.server.Clients.Delete(cl.ID)
	}
}

// outlives reports whether a session goes on when its connection ends.
func outlives(cl *mqtt.Client) bool {
	if cl.Properties.ProtocolVersion == 5 {
		return cl.Properties.Props.SessionExpiryInterval > 0
	}
	return !cl.Properties.Clean
}
