//go:build linux

package soak

import (
	"io"
	"net"
	"sync"
)

// proxy stands between clients and a broker, and breaks connections.
type proxy struct {
	l      net.Listener
	target string

	mu    sync.Mutex
	conns map[*net.TCPConn]bool
	work  sync.WaitGroup
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, target: target, conns: map[*net.TCPConn]bool{}}
	p.work.Go(p.accept)
	return p, nil
}

func (p *proxy) url() string { return "mqtt://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *proxy) serve(client *net.TCPConn) {
	defer client.Close()
	raw, err := net.Dial("tcp", p.target)
	if err != nil {
		return // as where nobody listens
	}
	server := raw.(*net.TCPConn)
	p.keep(client, true)
	p.keep(server, true)
	defer p.keep(client, false)
	defer p.keep(server, false)
	var pumps sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{client, server}, {server, client}} {
		pumps.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			client.Close()
			server.Close()
		})
	}
	pumps.Wait()
}

func (p *proxy) keep(c *net.TCPConn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

// reset breaks each connection that hit chooses, so that both ends see a reset.
func (p *proxy) reset(hit func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if hit() {
			_ = c.SetLinger(0)
			c.Close()
		}
	}
}

func (p *proxy) close() {
	p.l.Close()
	p.reset(func() bool { return true })
	p.work.Wait()
}
