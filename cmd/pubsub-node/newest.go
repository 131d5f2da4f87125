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
	full func(oldest net.Conn) // called when one makes room

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
	if len(l.kept) > l.most {
		oldest = l.kept[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		l.full(oldest)
		_ = oldest.Close()
	}
	return c, nil
}

func (c *kept) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.kept, c); i >= 0 {
		c.of.kept = slices.Delete(c.of.kept, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
