package main

import (
	"net"
	"slices"
	"sync"
)

// newest is a listener that keeps a few connections at a time: the oldest makes room for
// the next, so that nobody can keep others out by staying.
type newest struct {
	net.Listener
	most int
	full func(oldest net.Conn, busiest string) // called when one makes room; most are of busiest

	mu   sync.Mutex
	kept []*kept // the oldest first
}

// kept is a connection of a newest.
type kept struct {
	net.Conn
	of *newest
}

func (l *newest) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &kept{conn, l}
	l.mu.Lock()
	l.kept = append(l.kept, c)
	var oldest *kept
	var busiest string
	if len(l.kept) > l.most {
		oldest, busiest = l.kept[0], l.busiest()
	}
	l.mu.Unlock()
	if oldest != nil {
		l.full(oldest, busiest)
		_ = oldest.Close()
	}
	return c, nil
}

// busiest is the address that has the most connections. The caller holds mu.
func (l *newest) busiest() (most string) {
	count := map[string]int{}
	for _, c := range l.kept {
		host := hostOf(c)
		if count[host]++; count[host] > count[most] {
			most = host
		}
	}
	return most
}

// hostOf is the address of the other side, without the port, which is another one each time.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

func (c *kept) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.kept, c); i >= 0 {
		c.of.kept = slices.Delete(c.of.kept, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
