// Package proxy carries TCP connections from clients to a server, and holds up, delays or
// ends them. Nothing is lost on the way: what is held up arrives later, unless its
// connection ends.
package proxy

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two of a connection.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	FromServer
)

// Proxy is one address of a server.
type Proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when one of those below changes
	held    [2]bool       // by direction
	delay   time.Duration
	cut     bool // no new connections
	closed  bool
	conns   map[*net.TCPConn]bool
}

// Start runs a proxy until the end of the test. The target is an address, or a URL of MQTT.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: strings.TrimPrefix(target, "mqtt://"), changed: make(chan struct{}), conns: map[*net.TCPConn]bool{}}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL is what a client of MQTT connects to.
func (p *Proxy) URL() string { return "mqtt://" + p.listener.Addr().String() }

// set changes how connections fare and wakes whatever waits for that.
func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Hold lets nothing through in the given directions, and all through in others.
func (p *Proxy) Hold(directions ...Direction) {
	p.set(func() {
		p.held = [2]bool{}
		for _, d := range directions {
			p.held[d] = true
		}
	})
}

// Freeze lets nothing through.
func (p *Proxy) Freeze() { p.Hold(ToServer, FromServer) }

// Release lets through what is held up.
func (p *Proxy) Release() { p.Hold() }

// Delay has all take that long on the way.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Break closes all connections; clients may connect again.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Cut closes all connections and refuses others until Restore.
func (p *Proxy) Cut() {
	p.set(func() { p.cut = true })
	p.Break()
}

// Restore ends a Cut.
func (p *Proxy) Restore() { p.set(func() { p.cut = false }) }

// Reset ends each connection that hit chooses, so that both its ends see a reset.
func (p *Proxy) Reset(hit func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if hit() {
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}
}

// ResetAll is Reset of all connections.
func (p *Proxy) ResetAll() { p.Reset(func() bool { return true }) }

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.set(func() { p.cut, p.closed = true, true })
	p.ResetAll()
	p.work.Wait()
}
