package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.carry(client.(*net.TCPConn)) })
	}
}

// carry carries one connection until an end of it closes.
func (p *Proxy) carry(client *net.TCPConn) {
	defer client.Close()
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	if !p.begin(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client, ToServer) })
	both.Go(func() { p.pump(client, server, FromServer) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// begin reports whether a new connection is let through.
func (p *Proxy) begin(client, server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[client], p.conns[server] = true, true
	}
	return !p.cut
}

// packet is what was read at once, and when.
type packet struct {
	payload []byte
	at      time.Time
}

// pump carries one direction. Delayed packets keep their distance, so reading goes on
// meanwhile; while the direction is held, nothing more is read, so that the sender finds
// its socket full.
func (p *Proxy) pump(to, from *net.TCPConn, direction Direction) {
	packets := make(chan packet, 1024)
	p.work.Go(func() {
		defer close(packets)
		buffer := make([]byte, 16<<10)
		for {
			n, err := from.Read(buffer)
			at := time.Now()
			p.pass(direction, time.Time{})
			if err != nil {
				return
			}
			packets <- packet{bytes.Clone(buffer[:n]), at}
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
func (p *Proxy) pass(direction Direction, at time.Time) {
	for {
		p.mu.Lock()
		changed, closed, held, wait := p.changed, p.closed, p.held[direction], time.Until(at.Add(p.delay))
		p.mu.Unlock()
		var late <-chan time.Time
		switch {
		case closed:
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
