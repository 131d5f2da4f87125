package broker_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/tests/poll"
)

const patience = 20 * time.Second

// start starts a broker that ends with the test.
func start(t testing.TB, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, b) })
	return b
}

func stop(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// client is a paho client with an inbox.
type client struct {
	t testing.TB
	paho.Client
	mu    sync.Mutex
	inbox []paho.Message
	lost  chan error
}

type option func(*paho.ClientOptions)

func inProcess(b *broker.Broker) option {
	return func(o *paho.ClientOptions) {
		o.AddBroker("mqtt://in-process")
		o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			return b.Dial(context.Background())
		})
	}
}

func at(url string) option { return func(o *paho.ClientOptions) { o.AddBroker(url) } }

func trust(conf *tls.Config) option { return func(o *paho.ClientOptions) { o.SetTLSConfig(conf) } }

func as(user, password string) option {
	return func(o *paho.ClientOptions) { o.SetUsername(user).SetPassword(password) }
}

func session(id string) option {
	return func(o *paho.ClientOptions) { o.SetClientID(id).SetCleanSession(false) }
}

func will(topic, payload string, retained bool) option {
	return func(o *paho.ClientOptions) { o.SetWill(topic, payload, 1, retained) }
}

var ids struct {
	sync.Mutex
	n int
}

// dial connects a client, or returns the error of the connection.
func dial(t testing.TB, opts ...option) (*client, error) {
	c := &client{t: t, lost: make(chan error, 1)}
	ids.Lock()
	ids.n++
	o := paho.NewClientOptions().SetClientID(fmt.Sprint("c", ids.n)).SetAutoReconnect(false).
		SetKeepAlive(10 * time.Second).SetConnectTimeout(patience).SetProtocolVersion(4)
	ids.Unlock()
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
		c.mu.Lock()
		c.inbox = append(c.inbox, m)
		c.mu.Unlock()
	})
	o.SetConnectionLostHandler(func(_ paho.Client, err error) { c.lost <- err })
	for _, f := range opts {
		f(o)
	}
	c.Client = paho.NewClient(o)
	token := c.Connect()
	if !token.WaitTimeout(patience) {
		return nil, fmt.Errorf("no answer to CONNECT")
	}
	return c, token.Error()
}

func connect(t testing.TB, opts ...option) *client {
	t.Helper()
	c, err := dial(t, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Disconnect(50) })
	return c
}

func (c *client) publish(topic, payload string, qos byte, retained bool) {
	c.t.Helper()
	token := c.Publish(topic, qos, retained, payload)
	if !token.WaitTimeout(patience) || token.Error() != nil {
		c.t.Fatalf("publish %s: no acknowledgement: %v", topic, token.Error())
	}
}

// granted subscribes and returns the code of the SUBACK.
func (c *client) granted(filter string, qos byte) byte {
	c.t.Helper()
	token := c.Subscribe(filter, qos, nil).(*paho.SubscribeToken)
	if !token.WaitTimeout(patience) {
		c.t.Fatalf("subscribe %s: no answer", filter)
	}
	for _, code := range token.Result() { // keyed by the filter without $share/group
		return code
	}
	return 0x80 // paho has refused to send it
}

func (c *client) subscribe(filter string, qos byte) {
	c.t.Helper()
	if code := c.granted(filter, qos); code > 2 {
		c.t.Fatalf("subscribe %s: refused with %#x", filter, code)
	}
}

func (c *client) payloads() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, m := range c.inbox {
		all = append(all, string(m.Payload()))
	}
	return all
}

// receive waits until n messages have come and returns what has.
func (c *client) receive(n int) []string {
	c.t.Helper()
	poll.UntilOr(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.inbox) >= n
	}, func() string { return fmt.Sprintf("%d of %d messages", len(c.payloads()), n) })
	return c.payloads()
}
