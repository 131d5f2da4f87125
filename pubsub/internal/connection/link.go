package connection

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/gorilla/websocket"

	"padme/pubsub/internal/failure"
)

// ConnectTimeout bounds one attempt to connect.
const ConnectTimeout = 10 * time.Second

// Config is what a link is made from.
type Config struct {
	URL            string // for errors: all that were given
	ClientID       string
	User, Password string
	KeepAlive      time.Duration
	Open           func(context.Context) (net.Conn, error)

	Will Packet // without a topic: none

	// Receive is called in order, by one goroutine at a time; payload is not
	// used again by the client.
	Receive func(topic string, payload []byte, retained bool)
}

// A Link is one MQTT session over one network connection: a client that is
// never reused, because the client's own reconnection loses messages silently.
// Links are the only users of the MQTT client library.
type Link struct {
	client mqtt.Client
	conn   *stream

	near   neighbor   // of a broker in this process; nil for any other
	hears  sync.Mutex // held while what has come is received
	ended  bool       // nothing is received any more; guarded by hears
	buffer []byte     // messages at QoS 0 that are to be written with what comes next; of the goroutine that writes
	acks   acks

	wildcards wildcards

	lost chan struct{} // closed when the connection is gone
	once sync.Once
	err  error // why; read after lost
}

// Connect opens a session. It blocks until the broker has accepted it or
// ctx ends.
func Connect(ctx context.Context, c Config) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	conn, err := c.Open(ctx)
	if err != nil {
		if remedy := tlsRemedy(err); remedy != "" {
			return nil, fmt.Errorf("%w: no TLS with %s: %s: %w", tlsKind(err), c.URL, remedy, err)
		}
		if errors.Is(err, websocket.ErrBadHandshake) {
			return nil, fmt.Errorf("%w: what answers at %s is no broker's WebSocket: correct the address or its path: %w", failure.ErrUnreachable, c.URL, err)
		}
		return nil, fmt.Errorf("%w: nothing answers at %s: start a broker there or correct the URL: %w", failure.ErrUnreachable, c.URL, err)
	}
	stream := newStream(conn, c.KeepAlive)
	l := &Link{conn: stream, lost: make(chan struct{}), acks: acks{waiting: map[uint16]*ack{}}}
	stream.receive, stream.acked = l.receiving(c.Receive), l.acks.came
	stream.retained = l.cameRetained
	o := mqtt.NewClientOptions().
		AddBroker("tcp://broker"). // only a label: the stream is open already
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return stream, nil }).
		SetClientID(c.ClientID).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetConnectTimeout(ConnectTimeout).
		SetWriteTimeout(c.KeepAlive).
		SetKeepAlive(c.KeepAlive).
		SetPingTimeout(c.KeepAlive).
		SetStore(noStore{}).
		SetConnectionLostHandler(func(_ mqtt.Client, err error) { l.lose(err) })
	if c.User != "" {
		o.SetUsername(c.User).SetPassword(c.Password)
	}
	if c.Will.Topic != "" {
		o.SetBinaryWill(c.Will.Topic, c.Will.Payload, 1, c.Will.Retain)
	}
	l.client = mqtt.NewClient(o)
	token := l.client.Connect()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	<-token.Done()
	if err := token.Error(); err != nil {
		stop()
		conn.Close()
		return nil, connectError(ctx, c, err)
	}
	if !stop() {
		l.Close(0)
		return nil, connectError(ctx, c, ctx.Err())
	}
	if near, ok := conn.(neighbor); ok {
		l.near = near
		near.Attach(func(topic string, payload []byte) { stream.receive(topic, payload, false) })
	}
	return l, nil
}

// neighbor is a connection to a broker in this process, which also exchanges messages of
// QoS 0 by calls.
type neighbor interface {
	Attach(receive func(topic string, payload []byte)) // called by other goroutines, too
	Post(topic string, payload []byte) bool            // false: write it as a packet
}

// receiving has receive called by one goroutine at a time, though it may be one of the
// broker's, and not after Close.
func (l *Link) receiving(receive func(topic string, payload []byte, retained bool)) func(string, []byte, bool) {
	return func(topic string, payload []byte, retained bool) {
		l.hears.Lock()
		defer l.hears.Unlock()
		if !l.ended {
			receive(topic, payload, retained)
		}
	}
}

// DeniedError says that the broker accepts no connection with these credentials. It
// wraps ErrRefused.
type DeniedError struct {
	// unauthorized: the broker said so, and not that the password is wrong.
	Unauthorized bool
}

func (*DeniedError) Error() string { return failure.ErrRefused.Error() }
func (*DeniedError) Unwrap() error { return failure.ErrRefused }

// connectError says what a failed handshake means and what to do about it.
func connectError(ctx context.Context, c Config, err error) error {
	switch {
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		return &DeniedError{errors.Is(err, packets.ErrorRefusedNotAuthorised)}
	case errors.Is(err, packets.ErrorRefusedIDRejected), errors.Is(err, packets.ErrorRefusedBadProtocolVersion):
		return fmt.Errorf("%w: %s does not accept client id %q: %w", failure.ErrRefused, c.URL, c.ClientID, err)
	case errors.Is(err, packets.ErrorRefusedServerUnavailable):
		return fmt.Errorf("%w: the broker at %s says it is not available: try again later, or, if the broker's log says that this user has too many connections, end some or raise the limit", failure.ErrUnreachable, c.URL)
	case tlsRemedy(err) != "":
		return fmt.Errorf("%w: no TLS with %s: %s: %w", tlsKind(err), c.URL, tlsRemedy(err), err)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s accepted the connection but did not complete the MQTT handshake: check that the port speaks MQTT 3.1.1 and whether TLS is wanted: %w", failure.ErrUnreachable, c.URL, err)
}

// Lost is closed when the connection is gone.
func (l *Link) Lost() <-chan struct{} { return l.lost }

func (l *Link) lose(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.lost)
		l.acks.end()
	})
}

// Publish writes a message at QoS 1, and returns before the broker has it. It blocks while
// the network takes nothing, at most for a keep-alive. One goroutine calls it and post.
func (l *Link) Publish(p *Packet) receipt {
	id, a := l.acks.next()
	l.write(p, id)
	return receipt{l, a, p.Topic, len(p.Payload)}
}

// post sends a message at QoS 0, which nobody acknowledges: with what comes next, or with flush.
// It may block as Publish does.
func (l *Link) post(p *Packet) {
	switch {
	case l.near != nil && !p.Retain && l.near.Post(p.Topic, p.Payload):
	case l.near != nil, len(l.buffer)+len(p.Payload) > maxKeptBuffer:
		l.write(p, 0)
	default:
		l.buffer = append(appendPublish(l.buffer, p, 0), p.Payload...)
	}
}

// flush writes what was posted.
func (l *Link) flush() {
	if len(l.buffer) > 0 {
		l.send(l.buffer, nil)
	}
}

// write writes a PUBLISH after what was posted, at QoS 1 if it has a packet id.
func (l *Link) write(p *Packet, id uint16) {
	b, rest := appendPublish(l.buffer, p, id), p.Payload
	if len(rest) <= maxKeptBuffer {
		b, rest = append(b, rest...), nil
	}
	l.send(b, rest)
}

// send writes b, of which the memory is kept, and rest. If it cannot, the link is lost.
func (l *Link) send(b, rest []byte) {
	if l.buffer = nil; cap(b) <= 2*maxKeptBuffer {
		l.buffer = b[:0]
	}
	if err := l.conn.post(b, rest); err != nil {
		l.lose(err)
	}
}

// appendPublish appends a PUBLISH (MQTT 3.1.1 §3.3) up to its payload, at QoS 1 if it has a
// packet id.
func appendPublish(b []byte, p *Packet, id uint16) []byte {
	const retained, qos1 = 1, 1 << 1
	first, length := byte(typePublish<<4), 2+len(p.Topic)+len(p.Payload)
	if p.Retain {
		first |= retained
	}
	if id != 0 {
		first |= qos1
		length += 2
	}
	b = appendLength(append(b, first), length)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.Topic)))
	b = append(b, p.Topic...)
	if id != 0 {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return b
}

// hand calls f, which hands the client something, unless the connection is lost: see
// stream.Read.
func (l *Link) hand(f func() mqtt.Token) token {
	l.conn.handing.Lock()
	defer l.conn.handing.Unlock()
	if l.conn.over {
		return lostToken{}
	}
	return f()
}

// appendLength appends the remaining length of a packet (MQTT 3.1.1 §2.2.3).
func appendLength(b []byte, n int) []byte {
	for ; n > 0x7f; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// subscribe asks for one filter. One per packet: see stream. QoS 0 costs a cluster much
// less, and so it does who reads: nothing is acknowledged.
func (l *Link) subscribe(filter string, qos byte) receipt {
	if qos == 1 && l.wildcards.asked(filter) {
		l.request(filter, 0)
	}
	return l.request(filter, qos)
}

func (l *Link) request(filter string, qos byte) receipt {
	return receipt{l, l.hand(func() mqtt.Token { return l.client.Subscribe(filter, qos, nil) }), filter, 0}
}

func (l *Link) unsubscribe(filter string) {
	l.wildcards.forget(filter)
	l.hand(func() mqtt.Token { return l.client.Unsubscribe(filter) })
}

// Close ends the session, politely if the broker takes the DISCONNECT in time,
// and returns when the client has ended.
func (l *Link) Close(polite time.Duration) {
	if polite == 0 {
		l.conn.cut()
	}
	l.lose(failure.ErrClosed)
	l.hears.Lock()
	l.ended = true
	l.hears.Unlock()
	l.wildcards.end()
	l.client.Disconnect(uint(max(polite, 100*time.Millisecond).Milliseconds()))
	l.conn.Close()
}

// token is what the MQTT client returns, as far as it is used, and ack.
type token interface {
	Done() <-chan struct{}
	Error() error // after Done
}

// receipt is the broker's answer to come.
type receipt struct {
	link  *Link
	token token
	topic string
	size  int // of a publish, in bytes
}

// done reports whether the broker has answered, without waiting.
func (r receipt) done() bool {
	select {
	case <-r.token.Done():
		return true
	default:
		return false
	}
}

// Wait returns when the broker has answered, the connection is lost or ctx
// ends.
func (r receipt) Wait(ctx context.Context) error {
	select {
	case <-r.token.Done():
	case <-r.link.lost:
		return failure.ErrOffline
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.token.Error() != nil {
		return failure.ErrOffline
	}
	if s, ok := r.token.(*mqtt.SubscribeToken); ok {
		if code := s.Result()[r.topic]; code > 2 {
			return &Refusal{r.topic, code}
		}
	}
	return nil
}

// waitFor is Wait, but not for longer than that.
func (r receipt) waitFor(ctx context.Context, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	return r.Wait(ctx)
}

// lostToken is the client's answer to what it was not handed.
type lostToken struct{}

func (lostToken) Done() <-chan struct{} { return closed }
func (lostToken) Error() error          { return failure.ErrOffline }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Refusal is a SUBACK which grants nothing. The client reports no error for it.
type Refusal struct {
	Filter string
	code   byte
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%v: subscribing to %q was answered %#x: allow this user to read it in the broker's access rules, or, if the broker's log says that the user is beyond a limit, end some of its connections and subscriptions or raise the limit", failure.ErrRefused, r.Filter, r.code)
}

func (r *Refusal) Unwrap() error { return failure.ErrRefused }

// noStore keeps nothing: a link is never resumed.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}

// Gone reports whether the connection was lost.
func (l *Link) Gone() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}
