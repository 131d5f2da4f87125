package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"padme/broker/internal/wire"
)

// errBusy says: a password, or what a stranger has sent, had to wait for too long.
var errBusy = errors.New("too many connections that have not logged in wait for their turn")

// maxClientID bounds a client id, in bytes, as it is kept with what waits for its session and
// with what it has sent. A participant with the longest name has 400.
const maxClientID = 512

// readConnect reads the first packet as a whole, so that a stranger costs its bytes only:
// mochi spends 70 KB on a connection, and much more on what it decodes.
func (c *conn) readConnect(l Limits) error {
	r := bufio.NewReaderSize(c.Conn, 1<<10) // most in one read, as each has its turn
	length, err := c.readHead(r)
	if err != nil {
		return err
	}
	if length > l.ConnectSize {
		return fmt.Errorf("%w: a CONNECT of %d bytes: the limit is %d", errOversized, length, l.ConnectSize)
	}
	var body bytes.Buffer // grows with what comes
	if _, err := io.CopyN(&body, r, int64(length)); err != nil {
		return err
	}
	if c.connect, err = wire.ParseConnect(body.Bytes(), c.scanner.Limits); err != nil {
		return fmt.Errorf("CONNECT: %w", err)
	}
	c.scanner.Version = c.connect.Version
	c.head = append(c.head, body.Bytes()...)
	behind, _ := r.Peek(r.Buffered())
	c.behind = bytes.Clone(behind)
	return nil
}

// readHead reads the fixed header of the first packet.
func (c *conn) readHead(r *bufio.Reader) (length int, err error) {
	for len(c.head) < 5 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		c.head = append(c.head, b)
		if c.head[0]&0xf0 != packets.Connect<<4 {
			return 0, fmt.Errorf("%w: the first packet is no CONNECT: is this an MQTT client, and does it agree with us on TLS?", errNotMQTT)
		}
		if len(c.head) == 1 || b&0x80 != 0 {
			continue
		}
		for i, v := range c.head[1:] {
			length |= int(v&0x7f) << (7 * i)
		}
		return length, nil
	}
	return 0, fmt.Errorf("%w: the length of the first packet is malformed", errNotMQTT)
}

// letIn decides on a CONNECT by who has sent it. A refusal has been answered, counted and
// logged.
func (b *Broker) letIn(c *conn) bool {
	if b.access.users != nil {
		name, why := b.access.authenticate(c)
		switch {
		case errors.Is(why, errBusy):
			b.counts.refusedConnect.Add(1)
			b.limited("max-password-wait", "", c.RemoteAddr().String())
			c.answer(packets.ErrServerBusy)
			return false
		case errors.Is(why, context.Canceled): // the peer has gone
			return false
		case why != nil:
			b.access.refuseConnect(c, why.Error(), string(name))
			c.answer(packets.ErrBadUsernameOrPassword)
			return false
		}
		c.user = name
	}
	if n := len(c.connect.ID); n > maxClientID {
		b.access.refuseConnect(c, fmt.Sprintf("a client id of %d bytes: the limit is %d", n, maxClientID), string(c.user))
		c.answer(packets.ErrClientIdentifierTooLong)
		return false
	}
	if !b.sessions.enter(c) {
		c.answer(packets.ErrQuotaExceeded)
		return false
	}
	if g := c.guest(); g != nil {
		if !b.hasRoom(c) {
			b.counts.refusedConnect.Add(1)
			b.limited("max-clients", string(c.user), c.RemoteAddr().String())
			c.answer(packets.ErrServerBusy)
			return false
		}
		g.known()
	}
	if c.turns == nil {
		return true
	}
	c.begin()
	return c.takeTurn()
}

// hasRoom counts a connection among the clients, if they are not too many. Observers and clients of
// locks leave an eighth to others: many of those together must not keep a member out.
func (b *Broker) hasRoom(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.cfg.Limits.Clients
	if c.turns != nil {
		most -= most / 8
	}
	if b.inside >= most {
		return false
	}
	b.inside++
	c.inside = true
	return true
}

// answer refuses a CONNECT.
func (c *conn) answer(code packets.Code) {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: c.connect.Version, ReasonCode: code.Code}
	switch {
	case c.connect.Version == 5:
		pk.Properties.ReasonString = code.Reason
	case code == packets.ErrServerBusy, code == packets.ErrQuotaExceeded: // of its five reasons the nearest
		pk.ReasonCode = packets.Err3ServerUnavailable.Code
	case code == packets.ErrClientIdentifierTooLong:
		pk.ReasonCode = packets.Err3ClientIdentifierNotValid.Code
	default:
		pk.ReasonCode = packets.Err3NotAuthorized.Code
	}
	var buf bytes.Buffer
	if pk.ConnackEncode(&buf) == nil {
		_, _ = c.Write(buf.Bytes())
	}
}

// authenticate returns the user of a connection, and what is wrong with it if it is not
// to be let in: errBusy, context.Canceled if the peer has gone, or what to log.
func (h *access) authenticate(c *conn) (name []byte, why error) {
	name = c.connect.User
	if h.certificates {
		if certified, ok := c.certificateName(); ok {
			if len(name) > 0 && string(name) != certified {
				return name, fmt.Errorf("the certificate is that of %q", certified)
			}
			if a, known := h.users.lookup([]byte(certified)); !known || a.internal {
				return []byte(certified), errors.New("a good certificate of nobody who is listed")
			}
			return []byte(certified), nil
		}
	}
	if a, _ := h.users.lookup(name); a.internal && c.guest() != nil {
		return name, errors.New("the account belongs to the broker's own process")
	}
	password := c.connect.Password
	if h.users.remembers(name, password) {
		return name, nil
	}
	wrong := errors.New("wrong name or password")
	if len(password) > maxPassword || bytes.IndexByte(password, 0) >= 0 { // see Users.Add
		return name, wrong
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), h.limits.PasswordWait, errBusy)
	defer cancel()
	present, leave := context.WithCancel(ctx)
	defer leave()
	_ = c.SetReadDeadline(time.Now().Add(2 * h.limits.PasswordWait)) // until mochi sets the keepalive's
	c.lookAhead(leave)
	as := "" // whoever guesses names waits for itself
	if _, known := h.users.lookup(name); known {
		as = string(name)
	}
	if err := h.turns.take(present, hostOf(c.RemoteAddr().String()), as); err != nil {
		return name, err
	}
	defer h.turns.give()
	if !h.users.remembers(name, password) && !h.users.check(name, password) {
		return name, wrong
	}
	return name, nil
}

// ahead is what came, or did not, while a password waited to be checked.
type ahead struct {
	done chan struct{} // closed when read and err are set
	read []byte
	err  error
}

// lookAhead reads on in a goroutine, once, and calls gone if the peer has left. What it
// reads is the first that Read returns after the CONNECT.
func (c *conn) lookAhead(gone func()) {
	a := &ahead{done: make(chan struct{})}
	c.ahead = a
	go func() {
		defer close(a.done)
		buf := make([]byte, 512)
		n, err := c.Conn.Read(buf)
		if g := c.guest(); g != nil {
			g.giveTurn()
		}
		if a.read, a.err = buf[:n], err; err != nil {
			gone()
		}
	}()
}

// receive reads what came after the CONNECT.
func (c *conn) receive(p []byte) (int, error) {
	if len(c.behind) > 0 {
		n := copy(p, c.behind)
		c.behind = c.behind[n:]
		return n, nil
	}
	if a := c.ahead; a != nil {
		<-a.done
		n := copy(p, a.read)
		if a.read = a.read[n:]; len(a.read) > 0 || len(p) == 0 {
			return n, nil
		}
		if c.ahead = nil; n > 0 || a.err != nil {
			return n, a.err
		}
	}
	if c.decoders == nil {
		return c.Conn.Read(p)
	}
	g := c.guest()
	if gone := g.takeUsersTurn(c); gone != nil { // for what was read before
		return 0, gone
	}
	defer g.giveTurn()
	return c.Conn.Read(p)
}

var _ net.Conn = (*conn)(nil)
