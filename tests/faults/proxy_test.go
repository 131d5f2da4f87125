//go:build linux

package faults

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy carries TCP connections to the broker, and holds up, delays or resets
// them. Nothing is lost on the way: what is held up arrives later, unless the
// connection ends.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced
	held    [2]bool       // by direction
	delay   time.Duration
	closed  bool
	conns   map[net.Conn]struct{}
}

// Directions.
const (
	toBroker = iota
	fromBroker
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.set(func() { p.closed = true })
	p.reset()
	p.work.Wait()
}

// set changes how connections fare and wakes whoever holds something up.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *proxy) hold(directions ...int) {
	p.set(func() {
		p.held = [2]bool{}
		for _, d := range directions {
			p.held[d] = true
		}
	})
}

// reset ends all connections with a TCP reset.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.carry(client) })
	}
}

// carry carries one connection until an end of it closes.
func (p *proxy) carry(client net.Conn) {
	broker, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[broker] = struct{}{}, struct{}{}
	p.mu.Unlock()
	if p.isClosed() { // before reset could know of them
		p.reset()
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(broker, client, toBroker) })
	p.pump(client, broker, fromBroker)
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, broker)
	p.mu.Unlock()
}

func (p *proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// packet is what was read at once, and when.
type packet struct {
	payload []byte
	at      time.Time
}

// pump carries one direction. Delayed packets keep their distance, so reading
// goes on meanwhile.
func (p *proxy) pump(to, from net.Conn, direction int) {
	packets := make(chan packet, 1024)
	p.work.Go(func() {
		defer close(packets)
		for {
			buffer := make([]byte, 4096)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			packets <- packet{buffer[:n], time.Now()}
		}
	})
	for pk := range packets {
		p.pass(direction, pk.at)
		if _, err := to.Write(pk.payload); err != nil {
			_ = from.Close()
		}
	}
	_ = to.Close()
}

// pass returns when what was read at this time may go on.
func (p *proxy) pass(direction int, at time.Time) {
	for {
		p.mu.Lock()
		changed, held, wait := p.changed, p.held[direction], time.Until(at.Add(p.delay))
		p.mu.Unlock()
		var late <-chan time.Time
		switch {
		case p.isClosed():
			return
		case held:
		case wait > 0:
			late = time.After(wait)
		default:
			return
		}
		select {
		case <-changed:
		case <-late:
		}
	}
}
