package broker

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// door bounds the connections whose peers have not proven yet who they are, in total and
// for each address. When there are too many the one that has been there for longest goes:
// an honest client needs milliseconds, so it gets in beside any number of silent ones.
type door struct {
	total, perAddress int
	local             bool // perAddress is for the addresses of this machine, too
	limited           func(limit, user, address string)

	mu     sync.Mutex
	guests *list.List // of *guest, the oldest first
	at     map[netip.Prefix]*list.List
}

func newDoor(l Limits, limited func(limit, user, address string)) *door {
	d := &door{
		total: l.Unauthenticated, perAddress: l.UnauthenticatedPerAddress, local: l.UnauthenticatedPerAddress > 0,
		limited: limited, guests: list.New(), at: map[netip.Prefix]*list.List{},
	}
	if d.perAddress == 0 {
		d.perAddress = defaultPerAddress
	}
	return d
}

// guest is a connection that the door counts until it is closed or let in.
type guest struct {
	net.Conn
	door         *door
	address      netip.Prefix // the zero value is not bounded by itself
	place, among *list.Element
}

// admit takes a place for a connection, if need be that of the oldest.
func (d *door) admit(raw net.Conn) *guest {
	g := &guest{Conn: raw, door: d, address: d.addressOf(raw)}
	d.mu.Lock()
	var victim *guest
	same := d.at[g.address]
	crowded := same != nil && same.Len() >= d.perAddress
	if crowded {
		victim = same.Front().Value.(*guest)
	} else if d.guests.Len() >= d.total {
		victim = d.guests.Front().Value.(*guest)
	}
	if victim != nil {
		d.remove(victim)
	}
	g.place = d.guests.PushBack(g)
	if g.address.IsValid() {
		if d.at[g.address] == nil {
			d.at[g.address] = list.New()
		}
		g.among = d.at[g.address].PushBack(g)
	}
	d.mu.Unlock()
	if victim == nil {
		return g
	}
	_ = victim.Conn.Close()
	if crowded {
		d.limited("max-unauthenticated-per-address", "", victim.RemoteAddr().String())
	} else {
		d.limited("max-unauthenticated", "", victim.RemoteAddr().String())
	}
	return g
}

// addressOf is what perAddress counts by: an IPv6 host has 2⁶⁴ addresses of its own.
func (d *door) addressOf(c net.Conn) netip.Prefix {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := a.AddrPort().Addr().Unmap()
	if ip.IsLoopback() && !d.local {
		return netip.Prefix{}
	}
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// remove gives a place back, once.
func (d *door) remove(g *guest) {
	if g.place == nil {
		return
	}
	d.guests.Remove(g.place)
	g.place = nil
	if g.among == nil {
		return
	}
	same := d.at[g.address]
	same.Remove(g.among)
	if same.Len() == 0 {
		delete(d.at, g.address)
	}
}

// known gives the place back: the peer has proven who it is.
func (g *guest) known() {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.door.remove(g)
}

func (g *guest) Close() error {
	g.known()
	return g.Conn.Close()
}

// doorListener admits what it accepts.
type doorListener struct {
	net.Listener
	door *door
}

func (l doorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.door.admit(c), nil
}

// guest is the door's part of a connection, below TLS and WebSocket; nil in the process.
func (c *conn) guest() *guest {
	below := c.Conn
	if ws, ok := below.(*webSocketConn); ok {
		below = ws.Conn
	}
	if secure, ok := below.(interface{ NetConn() net.Conn }); ok {
		below = secure.NetConn()
	}
	g, _ := below.(*guest)
	return g
}
