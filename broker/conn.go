package broker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"padme/broker/internal/wire"
)

// conn is the broker's end of a client's connection. It adds the deadlines that
// mochi lacks and carries what the hooks remember about a connected client.
type conn struct {
	net.Conn
	patience atomic.Int64 // nanoseconds that one write may take

	mu       sync.Mutex // of deadline and afterwards
	deadline time.Time  // of writing, renewed when half of it is gone

	due      time.Time    // when the CONNECT must be there
	head     []byte       // the CONNECT, read before mochi reads
	behind   []byte       // what came together with it, behind it
	connect  wire.Connect // what it says
	user     []byte       // who has proven to be that; nil without users
	inside   bool         // counts among Limits.Clients; guarded by the broker's mu
	ahead    *ahead       // what was read while the password was checked; nil for nothing
	scanner  wire.Scanner // of what comes after the CONNECT
	direct   *direct      // takes what need not go through mochi; nil: nothing
	outlet   outlet
	buffer   *sendBuffer             // below TLS and WebSocket
	pong     func(data string) error // answers a ping of a WebSocket
	pinged   bool                    // one is to be answered; of the reading goroutine, both
	pingData string
	silence  time.Duration // that ends the connection, since renewed; of the reading goroutine, both
	renewed  time.Time
	refuse   func(error) // tells the client why its packet was refused; nil before the session

	unacked  unacked
	own      tally        // of publishers that wait for it
	users    tally        // of those that wait for any connection of its user
	progress atomic.Int64 // grows when a message leaves or is acknowledged
	share    *share       // of its user; nil: nothing bounds it
	slow     func()       // waits before more is read, if the user takes more than its share; see guest
	rate     float64      // Limits.UserRate
	readCost float64      // what was read and processed since, by the goroutine that reads
	began    time.Time    // the packet in process, likewise
	turns    *turns       // in which its packets are processed; nil: at any time
	decoders *turns       // in which what is read of its user is decoded; nil: at any time
	inTurn   atomic.Bool  // it has one

	greeted    chan struct{} // closed when the session is resumed, or never will be
	greet      func()        // closes it
	afterwards func()        // see whenGreeted; guarded by mu
	ended      func()        // to be called when the session is removed; nil for nothing to do
	said       chan struct{} // closed when its will was sent, or there is none
	sayLast    func()        // closes it
	former     *conn         // whose session it takes over; nil: there is none
	connack    connack       // what is to be said in it
	departed   func()        // ends what its user is charged for; nil before it is charged
	left       atomic.Bool   // the broker is done with it
	stalled    atomic.Bool   // it was ended because nothing could be sent to it
	shortened  atomic.Bool   // its patience was shortened

	client  atomic.Pointer[mqtt.Client] // once its CONNECT was accepted
	pending atomic.Int64                // QoS 1 messages on the way to the socket
	window  window                      // of those, which may be sent
	gone    atomic.Bool                 // the client has closed its end; what it sent before counts

	// shadowed is a delivery whose packet id the client happens to use for a
	// packet of its own; only the client's reading goroutine touches it.
	shadowed *packets.Packet
	aside    sync.Mutex // held while there is one

	busy      int           // packets since others have got a turn; see yield
	willDelay time.Duration // after the end of the connection; see sessions.delay

	replay                    replaying
	takenMessages, takenBytes atomic.Int64 // of all publications that have left the queue
}

func newConn(raw net.Conn, l Limits) *conn {
	c := &conn{Conn: raw, own: tally{of: &credit{}}, users: tally{of: &credit{}}, greeted: make(chan struct{}), said: make(chan struct{}), scanner: wire.Scanner{Limits: wire.Limits{Properties: l.Properties, Filters: l.Filters, Levels: l.TopicLevels}}}
	c.greet = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.greeted)
		if c.afterwards != nil {
			c.afterwards()
		}
	})
	c.sayLast = sync.OnceFunc(func() { close(c.said) })
	c.patience.Store(int64(l.WriteTimeout))
	c.buffered(&l)
	c.due = time.Now().Add(l.ConnectTimeout)
	_ = raw.SetReadDeadline(c.due) // until mochi sets the keepalive's
	return c
}

// connOf returns the connection of a client, or nil for one that was restored
// from disk or lives in the broker.
func connOf(cl *mqtt.Client) *conn {
	c, _ := cl.Net.Conn.(*conn)
	return c
}

// Read returns the CONNECT, which was read before, and then what the scanner accepts.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.receive(p)
	for c.direct != nil && n > 0 && c.scanner.Between() {
		rest := c.direct.take(c, p[:n])
		if n = copy(p, rest); n > 0 || err != nil {
			break
		}
		n, err = c.receive(p)
	}
	if beyond := c.scanner.Scan(p[:n]); beyond != nil {
		if c.refuse != nil {
			c.refuse(beyond)
		}
		return 0, beyond // so that mochi never has all of the packet
	}
	return n, err
}

// Write writes p as a whole or closes the connection: mochi would go on in the middle of a
// packet. It does not wait for the client. One that has closed its end may have sent its
// DISCONNECT before, which is to be read: mochi would stop reading, and publish the will.
func (c *conn) Write(p []byte) (int, error) {
	if c.gone.Load() {
		return len(p), nil
	}
	if c.buffer.idle() { // else the deadline is that of what waits
		c.renewDeadline()
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		c.failed(err)
	}
	if c.gone.Load() {
		return len(p), nil
	}
	return n, err
}

// failed ends what cannot be written to any more.
func (c *conn) failed(err error) {
	if closedByPeer(err) {
		c.gone.Store(true)
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Duration(c.patience.Load())))
		return
	}
	c.stalled.CompareAndSwap(false, errors.Is(err, os.ErrDeadlineExceeded))
	_ = c.Close()
}

// buffered finds or makes the connection's sendBuffer.
func (c *conn) buffered(l *Limits) {
	if g := c.guest(); g != nil {
		c.buffer = g.buffer
	} else {
		c.buffer = newSendBuffer(c.Conn)
		c.Conn = inProcess{c.Conn, c.buffer}
	}
	c.buffer.serves(c.renewDeadline, c.failed, 2*max(l.unsentBytes(), l.PacketSize)+l.PacketSize)
}

// inProcess is a connection that is not a guest.
type inProcess struct {
	net.Conn
	buffer *sendBuffer
}

func (c inProcess) Write(p []byte) (int, error) { return c.buffer.write(p) }

func (c inProcess) Close() error {
	c.buffer.end(net.ErrClosed)
	return c.Conn.Close()
}

// closedByPeer reports whether the other end of a connection takes nothing any more.
func closedByPeer(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func (c *conn) renewDeadline() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if patience := time.Duration(c.patience.Load()); c.deadline.Sub(now) < patience/2 {
		c.deadline = now.Add(patience)
		_ = c.buffer.conn.SetWriteDeadline(c.deadline)
	}
}

// giveUpAfter shortens the patience of the present and all later writes.
func (c *conn) giveUpAfter(d time.Duration) {
	c.shortened.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience.Store(int64(d))
	c.deadline = time.Now().Add(d)
	_ = c.buffer.conn.SetWriteDeadline(c.deadline)
}

// whenGreeted calls f when greeted is closed, or now if it is.
func (c *conn) whenGreeted(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.established() {
		f()
	} else {
		c.afterwards = f
	}
}

func (c *conn) Close() error {
	c.greet()
	return c.Conn.Close()
}

// SetDeadline is mochi's keepalive. It bounds reading only: a client with a
// long keepalive must not stall its publishers for as long.
func (c *conn) SetDeadline(t time.Time) error {
	if c.gone.Load() {
		return nil
	}
	if c.silence, c.renewed = 0, time.Now(); !t.IsZero() {
		c.silence = t.Sub(c.renewed)
	}
	return c.Conn.SetReadDeadline(t)
}

// admit serves a new connection in a goroutine of its own, or closes it.
func (b *Broker) admit(raw net.Conn, listener string) error {
	_, err := b.admitConn(raw, listener)
	return err
}

func (b *Broker) admitConn(raw net.Conn, listener string) (*conn, error) {
	c := newConn(raw, b.cfg.Limits)
	c.direct = b.flow.direct
	if err := b.enter(c); err != nil {
		_ = raw.Close()
		return nil, err
	}
	go func() {
		defer b.leave(c)
		b.serve(c, listener)
	}()
	return c, nil
}

func (b *Broker) enter(c *conn) error {
	b.mu.Lock()
	inside := c.guest() == nil // in the process; all others knock first
	closing, full := b.closing, inside && b.inside >= b.cfg.Limits.Clients
	if !closing && !full {
		if c.inside = inside; inside {
			b.inside++
		}
		b.conns[c] = struct{}{}
		b.work.Add(1)
	}
	b.mu.Unlock()
	switch {
	case closing:
		return ErrClosed
	case full:
		b.counts.refusedConnect.Add(1)
		b.limited("max-clients", "", c.RemoteAddr().String())
		return ErrTooManyClients
	}
	return nil
}

func (b *Broker) leave(c *conn) {
	c.giveTurn()
	c.sayLast()
	c.former = nil
	c.buffer.settle() // the answer to a CONNECT that was refused
	_ = c.Close()
	c.outlet.end(c)
	if c.departed != nil {
		c.departed()
	}
	c.left.Store(true)
	if cl := c.client.Load(); cl != nil {
		b.sessions.endIfOver(cl, time.Now())
	}
	b.mu.Lock()
	delete(b.conns, c)
	if c.inside {
		b.inside--
	}
	b.mu.Unlock()
	if c.ahead != nil {
		<-c.ahead.done
	}
	b.work.Done()
}

// serve runs a connection to its end.
func (b *Broker) serve(c *conn, listener string) {
	log := b.log.With("remote", c.RemoteAddr(), "listener", listener)
	defer func() {
		if c.ended != nil {
			c.ended()
		}
	}()
	defer func() {
		// mochi indexes some packets before it has checked their length.
		if r := recover(); r != nil {
			level := slog.LevelDebug
			if b.access.tellOnce("broken decoder", string(c.user), c.RemoteAddr().String()) {
				level = slog.LevelError
			}
			log.Log(context.Background(), level, "a packet broke its decoder; the client was disconnected", "panic", r, "stack", string(debug.Stack()))
			b.counts.cut[cutProtocol].Add(1)
			b.guard.endReading(c)
			b.endSession(c)
		}
	}()
	if !b.listenTo(c, log) || !b.letIn(c) {
		return
	}
	c.refuse = func(why error) { b.refuse(c, why) }
	err := b.server.EstablishConnection(listener, c)
	b.noteCut(c, err)
	if cl := c.client.Load(); cl != nil {
		log.Debug("client disconnected", "client", cl.ID, "error", err)
	} else if err != nil {
		log.Info("connection refused", "error", err)
	}
}

// listenTo reads what a connection sends until its CONNECT is complete. What ended it before that
// has been counted and logged.
func (b *Broker) listenTo(c *conn, log *slog.Logger) bool {
	if g := c.guest(); g != nil {
		defer g.giveTurn() // passwords, observers and clients have turns of their own
	}
	if err := c.shakeHands(); err != nil {
		b.counts.cut[cutTLS].Add(1)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.limited("connect-timeout", "", c.RemoteAddr().String())
		}
		log.Info("connection closed before CONNECT", "error", err)
		return false
	}
	err := b.upgrade(c)
	if err == nil {
		err = c.readConnect(b.cfg.Limits)
	}
	b.noteCut(c, err)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errForeignPage) {
		log.Info("connection closed before CONNECT", "error", err)
	}
	return err == nil
}

// refuse tells an MQTT 5 client why its packet was refused and ends its connection; before
// that version there is no way to say it.
func (b *Broker) refuse(c *conn, why error) {
	cl := c.client.Load()
	if cl == nil || cl.Properties.ProtocolVersion != 5 {
		return
	}
	code := packets.ErrMalformedPacket
	if errors.As(why, new(*wire.LimitError)) {
		code = packets.ErrQuotaExceeded
		code.Reason = why.Error()
	}
	_ = b.server.DisconnectClient(cl, code)
}

// endSession ends a session in mochi's stead after a panic in its connection.
func (b *Broker) endSession(c *conn) {
	cl := c.client.Load()
	if cl == nil || cl.IsTakenOver() {
		return
	}
	cl.Stop(packets.ErrMalformedPacket)
	c.giveTurn() // of a packet that was not processed: a will may wait
	b.flow.sendWill(cl)
	for _, h := range b.hooks {
		h.OnDisconnect(cl, packets.ErrMalformedPacket, !outlives(cl))
	}
	if !outlives(cl) && !cl.IsTakenOver() {
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
