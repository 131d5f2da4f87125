package pubsub

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
)

// connectTimeout bounds one attempt to connect.
const connectTimeout = 10 * time.Second

// maxKeptBuffer bounds the memory that a link keeps for writing, in bytes.
const maxKeptBuffer = 4 << 10

// linkConfig is what a link is made from.
type linkConfig struct {
	url            string // for errors: all that were given
	clientID       string
	user, password string
	keepAlive      time.Duration
	open           func(context.Context) (net.Conn, error)

	willTopic string // "" for no will
	will      []byte

	// receive is called in order on the goroutine which reads; payload is not
	// used again by the client.
	receive func(topic string, payload []byte, retained bool)
}

// A link is one MQTT session over one network connection: a client that is
// never reused, because the client's own reconnection loses messages silently.
// Links are the only users of the MQTT client library.
type link struct {
	client mqtt.Client
	conn   *stream

	buffer []byte // of post, which one goroutine calls

	lost chan struct{} // closed when the connection is gone
	once sync.Once
	err  error // why; read after lost
}

// connectLink opens a session. It blocks until the broker has accepted it or
// ctx ends.
func connectLink(ctx context.Context, c linkConfig) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := c.open(ctx)
	if err != nil {
		if remedy := tlsRemedy(err); remedy != "" {
			return nil, fmt.Errorf("%w: no TLS with %s: %s: %w", tlsKind(err), c.url, remedy, err)
		}
		return nil, fmt.Errorf("%w: nothing answers at %s: start a broker there or correct the URL: %w", ErrUnreachable, c.url, err)
	}
	stream := newStream(conn, c.keepAlive)
	l := &link{conn: stream, lost: make(chan struct{})}
	o := mqtt.NewClientOptions().
		AddBroker("tcp://broker"). // only a label: the stream is open already
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return stream, nil }).
		SetClientID(c.clientID).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetConnectTimeout(connectTimeout).
		SetWriteTimeout(c.keepAlive).
		SetKeepAlive(c.keepAlive).
		SetPingTimeout(c.keepAlive).
		SetStore(noStore{}).
		SetConnectionLostHandler(func(_ mqtt.Client, err error) { l.lose(err) }).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { c.receive(m.Topic(), m.Payload(), m.Retained()) })
	if c.user != "" {
		o.SetUsername(c.user).SetPassword(c.password)
	}
	if c.willTopic != "" {
		o.SetBinaryWill(c.willTopic, c.will, 1, true)
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
		l.close(0)
		return nil, connectError(ctx, c, ctx.Err())
	}
	return l, nil
}

// connectError says what a failed handshake means and what to do about it.
func connectError(ctx context.Context, c linkConfig, err error) error {
	switch {
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		if c.user == "" {
			return fmt.Errorf("%w: %s does not accept anonymous participants: give WithCredentials, or a client certificate of a user that it knows", ErrRefused, c.url)
		}
		return fmt.Errorf("%w: %s does not accept the credentials of user %q: correct the password, or add the user at the broker", ErrRefused, c.url, c.user)
	case errors.Is(err, packets.ErrorRefusedIDRejected), errors.Is(err, packets.ErrorRefusedBadProtocolVersion):
		return fmt.Errorf("%w: %s does not accept client id %q: %w", ErrRefused, c.url, c.clientID, err)
	case errors.Is(err, packets.ErrorRefusedServerUnavailable):
		return fmt.Errorf("%w: the broker at %s says it is not available, try again later", ErrUnreachable, c.url)
	case tlsRemedy(err) != "":
		return fmt.Errorf("%w: no TLS with %s: %s: %w", tlsKind(err), c.url, tlsRemedy(err), err)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s accepted the connection but did not complete the MQTT handshake: check that the port speaks MQTT 3.1.1 and whether TLS is wanted: %w", ErrUnreachable, c.url, err)
}

func (l *link) lose(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.lost)
	})
}

// publish hands a message to the client and returns before the broker has it.
// It blocks while the network takes nothing, at most for a keep-alive.
func (l *link) publish(topic string, payload []byte, qos byte, retain bool) receipt {
	return receipt{l, l.hand(func() mqtt.Token { return l.client.Publish(topic, qos, retain, payload) }), topic}
}

// hand calls f, which hands the client something, unless the connection is lost: see
// stream.Read.
func (l *link) hand(f func() mqtt.Token) mqtt.Token {
	l.conn.handing.Lock()
	defer l.conn.handing.Unlock()
	if l.conn.over {
		return lostToken{}
	}
	return f()
}

// post writes a message at QoS 0 straight to the stream: nobody acknowledges it, so
// the MQTT client has nothing to add but two goroutines on the way. It blocks while
// the network takes nothing, at most for a keep-alive.
func (l *link) post(p *packet) error {
	const publish = 3 << 4
	b := l.buffer[:0]
	b = append(b, publish)
	b = appendLength(b, 2+len(p.topic)+len(p.payload))
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.topic)))
	b = append(b, p.topic...)
	b = append(b, p.payload...)
	if err := l.conn.write(b); err != nil {
		return err
	}
	if cap(b) <= maxKeptBuffer {
		l.buffer = b
	}
	return nil
}

// appendLength appends the remaining length of a packet (MQTT 3.1.1 §2.2.3).
func appendLength(b []byte, n int) []byte {
	for ; n > 0x7f; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// subscribe asks for one filter at QoS 1. One per packet: see stream.
func (l *link) subscribe(filter string) receipt {
	return receipt{l, l.hand(func() mqtt.Token { return l.client.Subscribe(filter, 1, nil) }), filter}
}

// subscribeAtMostOnce is subscribe at QoS 0, which costs a cluster much less.
func (l *link) subscribeAtMostOnce(filter string) receipt {
	return receipt{l, l.hand(func() mqtt.Token { return l.client.Subscribe(filter, 0, nil) }), filter}
}

func (l *link) unsubscribe(filter string) {
	l.hand(func() mqtt.Token { return l.client.Unsubscribe(filter) })
}

// close ends the session, politely if the broker takes the DISCONNECT in time,
// and returns when the client has ended.
func (l *link) close(polite time.Duration) {
	if polite == 0 {
		l.conn.Close()
	}
	l.lose(ErrClosed)
	l.client.Disconnect(uint(max(polite, 100*time.Millisecond).Milliseconds()))
	l.conn.Close()
}

// receipt is the broker's answer to come.
type receipt struct {
	link  *link
	token mqtt.Token
	topic string
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

// wait returns when the broker has answered, the connection is lost or ctx
// ends.
func (r receipt) wait(ctx context.Context) error {
	select {
	case <-r.token.Done():
	case <-r.link.lost:
		return ErrOffline
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.token.Error() != nil {
		return ErrOffline
	}
	if s, ok := r.token.(*mqtt.SubscribeToken); ok {
		if code := s.Result()[r.topic]; code > 2 {
			return &refusal{r.topic, code}
		}
	}
	return nil
}

// lostToken is the client's answer to what it was not handed.
type lostToken struct{}

func (lostToken) Wait() bool                     { return true }
func (lostToken) WaitTimeout(time.Duration) bool { return true }
func (lostToken) Done() <-chan struct{}          { return closed }
func (lostToken) Error() error                   { return ErrOffline }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// refusal is a SUBACK which grants nothing. The client reports no error for it.
type refusal struct {
	filter string
	code   byte
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%v: subscribing to %q was answered %#x: allow this user to read it in the broker's access rules", ErrRefused, r.filter, r.code)
}

func (r *refusal) Unwrap() error { return ErrRefused }

// noStore keeps nothing: a link is never resumed.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}

// gone reports whether the connection was lost.
func (l *link) gone() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}
