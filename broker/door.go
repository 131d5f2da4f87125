package broker

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// door bounds the connections whose peers have not proven yet who they are, in total and
// for each address. When there are too many the one that has been there for longest goes:
// an honest client needs milliseconds, so it gets in beside any number of silent ones.
type door struct {
	total, perAddress int
	most              int  // bytes of a connection before it is let in
	local             bool // perAddress is for the addresses of this machine, too
	limited           func(limit, user, address string)
	turns             *turns // in which what guests send is processed
	patience          time.Duration
	unread            time.Duration // how long one may read nothing of its answer

	mu     sync.Mutex
	guests *list.List // of *guest, the oldest first
	at     map[string]*list.List
	crowd  string    // the address that had most of them
	as     time.Time // of when that is
}

func newDoor(l Limits, limited func(limit, user, address string)) *door {
	d := &door{
		most: l.ConnectSize + handshakeSize, total: l.Unauthenticated, perAddress: l.UnauthenticatedPerAddress, local: l.UnauthenticatedPerAddress > 0,
		limited: limited, turns: newTurns(l.PasswordChecks), patience: l.PasswordWait, unread: l.WriteTimeout, guests: list.New(), at: map[string]*list.List{},
	}
	if d.perAddress == 0 {
		d.perAddress = defaultPerAddress
	}
	return d
}

// guest is a connection that the door counts until it is closed or let in.
type guest struct {
	net.Conn
	buffer       *sendBuffer // of what is written
	door         *door
	address      string // see addressOf
	host         string // whose turns it takes, see hostOf
	place, among *list.Element

	answer  func()                // answers the pings of a WebSocket; nil: there are none
	trusted atomic.Bool           // known
	taken   int                   // bytes that were read before; of the goroutine that reads
	charged atomic.Pointer[conn]  // whose user pays for what is read; nil: no user does
	turn    atomic.Pointer[turns] // of which it has one, to decode what was read; nil: of none
	since   atomic.Int64          // when it got that, in nanoseconds
	present context.Context       // until it is closed
	leave   context.CancelFunc    // ends that
	unknown context.Context       // until it is closed or known
	isKnown context.CancelFunc    // ends that
}

// errTooMuch ends a connection whose peer has not said who it is in as many bytes as that
// may take.
var errTooMuch = errors.New("broker: too much before a CONNECT was accepted")

// handshakeSize is how much more than a CONNECT may come before it is accepted: a TLS
// handshake with certificates, and the headers and frames of a WebSocket.
const handshakeSize = 32 << 10

// Read bounds what comes before the peer is known, and charges its user afterwards: also
// what TLS, HTTP and WebSocket read and never hand on, such as frames with nothing in them.
func (g *guest) Read(p []byte) (int, error) {
	g.giveTurn()
	c := g.charged.Load()
	if g.answer != nil {
		g.answer()
	}
	if c != nil {
		c.slow()
		if c.decoders != nil {
			p = p[:min(len(p), decodedAtOnce)]
		}
	}
	n, err := g.Conn.Read(p)
	if c == nil {
		c = g.charged.Load() // it may have been let in meanwhile
	}
	switch {
	case n == 0:
	case c != nil:
		c.readCost += float64(n) / shareUnit
		if gone := g.takeUsersTurn(c); gone != nil {
			return 0, gone
		}
	case !g.trusted.Load():
		if g.taken += n; g.taken > g.door.most {
			g.door.limited("max-connect-size", "", g.RemoteAddr().String())
			_ = g.Conn.Close()
			return 0, errTooMuch
		}
		if busy := g.takeTurn(); busy != nil {
			return 0, busy
		}
	}
	return n, err
}

// admit takes a place for a connection, if need be that of the oldest.
func (d *door) admit(raw net.Conn) *guest {
	g := &guest{Conn: raw, buffer: newSendBuffer(raw), door: d, address: d.addressOf(raw), host: hostOf(raw.RemoteAddr().String())}
	g.buffer.serves(func() { _ = raw.SetWriteDeadline(time.Now().Add(d.unread)) }, g.unread, strangerReads)
	g.present, g.leave = context.WithCancel(context.Background())
	g.unknown, g.isKnown = context.WithCancel(g.present)
	d.mu.Lock()
	var victim *guest
	same := d.at[g.address]
	crowded := same != nil && same.Len() >= d.perAddress
	if crowded {
		victim = same.Front().Value.(*guest)
	} else if d.guests.Len() >= d.total {
		victim = d.guests.Front().Value.(*guest)
	}
	crowd := ""
	if victim != nil {
		crowd = d.crowdAt(time.Now())
		d.remove(victim)
	}
	g.place = d.guests.PushBack(g)
	if g.address != "" {
		if d.at[g.address] == nil {
			d.at[g.address] = list.New()
		}
		g.among = d.at[g.address].PushBack(g)
	}
	d.mu.Unlock()
	if victim == nil {
		return g
	}
	victim.leave()
	_ = victim.Conn.Close()
	if crowded {
		d.limited("max-unauthenticated-per-address", "", victim.RemoteAddr().String())
	} else {
		d.limited("max-unauthenticated", "", crowd)
	}
	return g
}

// crowdAt is the address that has most of the guests, as of the last second: to count them costs time,
// and may be caused as often as somebody likes. mu is held.
func (d *door) crowdAt(now time.Time) string {
	if d.crowd != "" && now.Sub(d.as) < time.Second {
		return d.crowd
	}
	most, here := 0, d.guests.Len()
	for address, same := range d.at {
		if here -= same.Len(); same.Len() > most {
			d.crowd, most = address, same.Len()
		}
	}
	if here > most {
		d.crowd = "loopback"
	}
	d.as = now
	return d.crowd
}

// unread ends a connection whose peer does not read what it is answered.
func (g *guest) unread(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.door.limited("write-timeout", "", g.RemoteAddr().String())
	}
	_ = g.Conn.Close()
}

// addressOf is what perAddress counts by; "": it is not bounded by itself.
func (d *door) addressOf(c net.Conn) string {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || a.IP.IsLoopback() && !d.local {
		return ""
	}
	return placeOf(a.AddrPort().Addr())
}

// remove gives a place back, once.
func (d *door) remove(g *guest) {
	if g.place == nil {
		return
	}
	d.guests.Remove(g.place)
	g.place = nil
	if g.among == nil {
		return
	}
	same := d.at[g.address]
	same.Remove(g.among)
	if same.Len() == 0 {
		delete(d.at, g.address)
	}
}

// known gives the place back: the peer has proven who it is.
func (g *guest) known() {
	g.trusted.Store(true)
	g.isKnown()
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.door.remove(g)
}

func (g *guest) Close() error {
	g.leave()
	g.giveTurn()
	g.known()
	g.buffer.end(net.ErrClosed)
	return g.Conn.Close()
}

// SetWriteDeadline does nothing, as nothing above waits for what is written: the deadline of
// what waits below is the sendBuffer's.
func (g *guest) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is for reading only.
func (g *guest) SetDeadline(t time.Time) error { return g.SetReadDeadline(t) }

// Write does not wait for the peer. A turn goes on: strangers choose what TLS answers.
func (g *guest) Write(p []byte) (int, error) { return g.buffer.write(p) }

// takeTurn waits until what was read of a stranger may be processed, which is over when more
// is read: a signature takes milliseconds, and so do the thousands of records or frames that
// fit into what may come before a CONNECT. As many goroutines as there are connections would
// run before those of connections that have logged in. What comes from one that has left is not
// processed if it would have had to wait. One that is known meanwhile needs no turn any more.
func (g *guest) takeTurn() error {
	gone := func() bool { return g.present.Err() != nil }
	if !g.door.turns.takeFree() {
		ctx, cancel := context.WithTimeoutCause(g.unknown, g.door.patience, errBusy)
		defer cancel()
		err := g.door.turns.take(ctx, g.host, "")
		switch {
		case err != nil && g.trusted.Load() && !gone():
			return nil
		case errors.Is(err, errBusy):
			g.door.limited("max-password-wait", "", g.RemoteAddr().String())
			return err
		case err != nil:
			return err
		}
		gone = func() bool { return g.present.Err() != nil || peerGone(g.Conn) }
	}
	g.turn.Store(g.door.turns)
	if gone() {
		g.giveTurn()
		return io.EOF
	}
	return nil
}

func (g *guest) giveTurn() {
	of := g.turn.Swap(nil)
	if of == nil {
		return
	}
	if c := g.charged.Load(); c != nil && of == c.decoders {
		now := time.Now().UnixNano()
		c.share.decoded(now, time.Duration(now-g.since.Load()))
	}
	of.give()
}

// decodedAtOnce is how much of what was read of a user is decoded in one turn. It may be as many
// as 75 TLS key updates, a millisecond.
const decodedAtOnce = 2 << 10

// takeUsersTurn waits until TLS and WebSocket may decode what was read, or is to be read, of a
// user. That may be a lot of work for few bytes, of which nothing comes that would count as a
// packet: key updates, frames with nothing in them, pings. Hundreds of such connections would
// run before those of locks.
func (g *guest) takeUsersTurn(c *conn) error {
	if c.decoders == nil || g.turn.Load() != nil {
		return nil
	}
	line, now := "", time.Now().UnixNano()
	if c.share.isHeavy(now) { // such users have every second turn together
		line = "heavy"
	}
	if c.decoders.takeFree() { // the usual
		g.since.Store(now)
	} else {
		if c.decoders.take(g.present, line, c.share.name) != nil {
			return net.ErrClosed
		}
		g.since.Store(time.Now().UnixNano())
	}
	g.turn.Store(c.decoders)
	return nil
}

// peerLeft reports whether the peer has closed the connection, of which the broker hears when it
// reads again.
func (c *conn) peerLeft() bool {
	g := c.guest()
	return g != nil && (g.present.Err() != nil || peerGone(g.Conn))
}

// stays lasts until the connection is closed.
func (c *conn) stays() context.Context { return c.guest().present }

// guest is the door's part of a connection, below TLS and WebSocket; nil in the process.
func (c *conn) guest() *guest {
	below := c.Conn
	if ws, ok := below.(*webSocketConn); ok {
		below = ws.Conn
	}
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	g, _ := below.(*guest)
	return g
}

// inProcess reports whether the peer is in this process, as the node is.
func (c *conn) inProcess() bool { return c.guest() == nil }
