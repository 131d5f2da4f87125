package central

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// A naive server listens here, and answers below here.
const (
	naiveAsk     = "naive/ask"
	naiveAnswers = "naive/to/"
)

// naiveServer is a table of locks: who holds each, and who waits, first come first served.
type naiveServer struct {
	grant func(client, lock string)

	mu    sync.Mutex
	locks map[string][]string // of each lock the holder, then those that wait
}

// handle takes "+client lock" for a request and "-client lock" for a release.
func (s *naiveServer) handle(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	client, lock, _ := strings.Cut(message[1:], " ")
	if s.locks == nil {
		s.locks = map[string][]string{}
	}
	queue := s.locks[lock]
	if message[0] == '+' {
		s.locks[lock] = append(queue, client)
		if len(queue) == 0 {
			s.grant(client, lock)
		}
		return
	}
	if queue = queue[1:]; len(queue) > 0 {
		s.grant(queue[0], lock)
	}
	s.locks[lock] = queue
}

// startNaiveServer runs a naive server as an ordinary client of a broker.
func startNaiveServer(t testing.TB, url string) {
	c := connectNaive(t, url, "naive-server")
	s := &naiveServer{grant: func(client, lock string) { c.Publish(naiveAnswers+client, 0, false, lock) }}
	await(t, c.Subscribe(naiveAsk, 0, func(_ paho.Client, m paho.Message) { s.handle(string(m.Payload())) }))
}

// startNaiveBroker runs a naive server within the process of a broker, which is the bare
// library that package broker embeds: it hands requests over where it reads them.
func startNaiveBroker(t testing.TB) (url string) {
	t.Helper()
	b := mochi.New(&mochi.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.AddHook(new(everybody), nil); err != nil {
		t.Fatal(err)
	}
	s := &naiveServer{grant: func(client, lock string) { _ = b.Publish(naiveAnswers+client, []byte(lock), false, 0) }}
	if err := b.Subscribe(naiveAsk, 1, func(_ *mochi.Client, _ packets.Subscription, m packets.Packet) { s.handle(string(m.Payload)) }); err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(); err != nil {
		t.Fatal(err)
	}
	// Not by a listener of the library: to close one it reads its table of clients twice, one
	// within the other, and if a client leaves between, neither goes on (mochi 2.7.9).
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _ = b.EstablishConnection("tcp", c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		for _, c := range b.Clients.GetAll() {
			c.Stop(nil)
		}
		serving.Wait()
		_ = b.Close()
	})
	return "mqtt://" + l.Addr().String()
}

// everybody may do everything.
type everybody struct{ mochi.HookBase }

func (*everybody) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}
func (*everybody) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (*everybody) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

// naiveClient locks at a naive server.
type naiveClient struct {
	id      string
	client  paho.Client
	granted chan struct{}
}

func newNaiveClient(t testing.TB, url, id string) *naiveClient {
	c := &naiveClient{id: id, client: connectNaive(t, url, id), granted: make(chan struct{}, 1)}
	await(t, c.client.Subscribe(naiveAnswers+id, 0, func(paho.Client, paho.Message) { c.granted <- struct{}{} }))
	return c
}

func (c *naiveClient) lock(name string) (unlock func() error, err error) {
	c.client.Publish(naiveAsk, 0, false, "+"+c.id+" "+name)
	select {
	case <-c.granted:
	case <-time.After(patience):
		return nil, io.ErrNoProgress
	}
	return func() error { return c.client.Publish(naiveAsk, 0, false, "-"+c.id+" "+name).Error() }, nil
}

func connectNaive(t testing.TB, url, id string) paho.Client {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID(id))
	await(t, c.Connect())
	t.Cleanup(func() { c.Disconnect(100) })
	return c
}

func await(t testing.TB, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatal("no answer of the broker", token.Error())
	}
}
