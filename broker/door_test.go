package broker

import (
	"net"
	"slices"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (c *from) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

func (c *from) Close() error { c.closed = true; return nil }

func TestTheOldestStrangerMakesRoom(t *testing.T) {
	var reached []string
	d := newDoor(Limits{Unauthenticated: 4}, func(limit, _, address string) { reached = append(reached, limit+" "+hostOf(address)) })
	d.perAddress = 2
	come := func(address string) (*from, *guest) {
		c := &from{address: address}
		return c, d.admit(c)
	}
	first, _ := come("192.0.2.1")
	_, in := come("192.0.2.1")
	in.known()
	second, _ := come("192.0.2.1")
	_, _ = come("192.0.2.1")
	if !first.closed || second.closed {
		t.Errorf("of one address: %v %v", first.closed, second.closed)
	}
	subnet, _ := come("2001:db8::1")
	_, _ = come("2001:db8::2")
	third, left := come("2001:db8::ffff:3")
	if !subnet.closed {
		t.Error("an IPv6 host has many addresses")
	}
	if err := left.Close(); err != nil || !third.closed {
		t.Errorf("closed %v, %v", third.closed, err)
	}
	for range 3 { // of this machine as many as there are
		_, _ = come("127.0.0.1")
	}
	if !second.closed {
		t.Error("the oldest of all is still there")
	}
	want := []string{
		"max-unauthenticated-per-address 192.0.2.1", "max-unauthenticated-per-address 2001:db8::/64",
		"max-unauthenticated 192.0.2.1", "max-unauthenticated 192.0.2.1",
	}
	if !slices.Equal(reached, want) {
		t.Errorf("reached %q,\nwant %q", reached, want)
	}
	if d.guests.Len() != 4 || len(d.at) != 1 {
		t.Errorf("%d guests, %d addresses", d.guests.Len(), len(d.at))
	}
}
