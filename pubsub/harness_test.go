package pubsub

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub/filter"
	"padme/tests/brokers"
	"padme/tests/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(4)
	for test, why := range embeddedOnly {
		brokers.Stays(test, why)
	}
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

// embeddedOnly are the tests with a broker which the choice of one does not
// concern.
var embeddedOnly = map[string]string{
	"TestABrokerWithAccessRulesLetsMembersDoTheirWork": "its subject is the embedded broker's access rules",
	"TestRefusedCredentialsEndAParticipant":            "changes a user of the embedded broker",
	"TestTLSErrorsSayWhatHelps":                        "its subject are the embedded broker's listeners",
	"TestEveryTransportCarriesMessages":                "its subject are the embedded broker's listeners",
	"TestEverythingComesBackAfterTheBrokerRestarts":    "restarts its broker: tests/brokers does that to all",
	"Example…": "what they print shows the embedded broker",
}

// startBroker runs a broker of the chosen kind until the test ends and returns
// its URL.
func startBroker(t testing.TB) string {
	t.Helper()
	return brokers.Use(t)
}

func startBrokerAt(t testing.TB, addr string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(testContext(t), broker.Config{TCP: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	return b
}

func stopBroker(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("closing the broker: %v", err)
	}
}

// join makes a participant that is closed when the test ends.
func join(t testing.TB, url, id string, opts ...Option) *Participant {
	t.Helper()
	p, err := Join(testContext(t), url, id, append(at(t), opts...)...)
	if err != nil {
		t.Fatalf("Join(%q): %v", id, err)
	}
	t.Cleanup(func() {
		// The test is over, and its broker may be: what is unread may remain so.
		if err := closeSoon(p); err != nil && !errors.Is(err, ErrUndelivered) {
			t.Errorf("Close(%q): %v", p.ID(), err)
		}
	})
	return p
}

// at is the domain that a test has for itself.
func at(t testing.TB) []Option { return []Option{WithDomain(brokers.Domain(t))} }

func closeNow(t testing.TB, p *Participant) {
	t.Helper()
	if err := closeSoon(p); err != nil {
		t.Errorf("Close(%q): %v", p.ID(), err)
	}
}

func closeSoon(p *Participant) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Close(ctx)
}

// testContext bounds every wait of a test.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive takes the next value of a channel.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("unreachable")
	}
}

// proxy is a TCP relay whose connections can be cut or frozen.
type proxy struct {
	net.Listener
	target string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	frozen chan struct{} // nil: bytes flow; otherwise closed when they flow again
	shut   bool          // refuse new connections
	wg     sync.WaitGroup
}

func startProxy(t testing.TB, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: url[len("mqtt://"):], conns: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.thaw()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "mqtt://" + p.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.shut {
			in.Close()
			if err == nil {
				out.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[in], p.conns[out] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.relay(in, out) })
		p.wg.Go(func() { p.relay(out, in) })
	}
}

func (p *proxy) relay(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}

// refuse lets nobody in until it is called with false.
func (p *proxy) refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = yes
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// selected is the option of a filter in text.
func selected(t *testing.T, text string) EndpointOption {
	t.Helper()
	x, err := filter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return WithExpression(x)
}
