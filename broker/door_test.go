package broker

import (
	"net"
	"slices"
	"testing"
	"time"
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

// When there are too many strangers the oldest goes, which may be an honest one. The line is about
// the address that has most of them.
func TestTheVictimIsNotAccused(t *testing.T) {
	for flooder, want := range map[string]string{"192.0.2.1": "192.0.2.1", "127.0.0.1": "loopback"} {
		var reached []string
		d := newDoor(Limits{Unauthenticated: 4}, func(limit, _, address string) { reached = append(reached, limit+" "+hostOf(address)) })
		honest := &from{address: "198.51.100.7"}
		d.admit(honest)
		for range 4 {
			d.admit(&from{address: flooder})
		}
		if !honest.closed || !slices.Equal(reached, []string{"max-unauthenticated " + want}) {
			t.Errorf("closed %v, reached %q", honest.closed, reached)
		}
	}
}

// A stranger that reads nothing of what it is answered before it has logged in is counted as anybody
// else who reads nothing.
func TestStrangersThatReadNothing(t *testing.T) {
	for name, answer := range map[string]int{"for too long": 1000, "too much": strangerReads + 1} {
		t.Run(name, func(t *testing.T) {
			reached := make(chan string, 1)
			d := newDoor(Limits{Unauthenticated: 4, WriteTimeout: 10 * time.Millisecond}, func(limit, _, address string) { reached <- limit + " " + hostOf(address) })
			near, far := net.Pipe()
			defer near.Close()
			g := d.admit(at{far})
			if _, err := g.Write(make([]byte, answer)); (err != nil) != (answer > strangerReads) {
				t.Error(err)
			}
			if got := <-reached; got != "write-timeout 192.0.2.9" {
				t.Errorf("reached %q", got)
			}
			_ = g.Close()
			g.buffer.writer.Wait()
		})
	}
}

// at is a pipe with an address, and no socket.
type at struct{ net.Conn }

func (at) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1} }
