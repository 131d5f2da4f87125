package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// plain is a connection of a user at which a test sends and receives bytes.
type plain struct {
	net.Conn
	t *testing.T
}

// logIn makes a connection of a user.
func logIn(t *testing.T, b *Broker, user string) plain {
	t.Helper()
	p := dialed(t, b)
	p.logIn(user, 0)
	p.wants(0x20, "\x00\x00")
	return p
}

func dialed(t *testing.T, b *Broker) plain {
	t.Helper()
	c, err := net.Dial("tcp", b.TCPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return plain{c, t}
}

// logIn sends a CONNECT of MQTT 3.1.1, with the user's name as password, and a will.
func (p plain) logIn(user string, flags byte, will ...string) {
	p.t.Helper()
	p.send(0x10, append([]string{"\x00\x04MQTT\x04", string([]byte{0xc2 | flags}), "\x00\x3c", lengthened(p.LocalAddr().String())}, append(will, lengthened(user), lengthened(user))...)...)
}

func lengthened(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

func (p plain) send(first byte, parts ...string) {
	p.t.Helper()
	body := strings.Join(parts, "")
	if _, err := p.Write(append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)); err != nil {
		p.t.Fatal(err)
	}
}

// wants reads a packet with a short body.
func (p plain) wants(first byte, body string) {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(20 * time.Second))
	got := make([]byte, 2+len(body))
	if _, err := io.ReadFull(p, got); err != nil {
		p.t.Fatal(err)
	}
	if want := append([]byte{first, byte(len(body))}, body...); !bytes.Equal(got, want) {
		p.t.Fatalf("got %x, want %x", got, want)
	}
}

// nothing fails if something comes.
func (p plain) nothing() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := p.Read(make([]byte, 1)); n > 0 || err == nil {
		p.t.Fatal("something came")
	}
}

// observed starts a broker with a member, a gateway, two observers and two clients.
func observed(t *testing.T) *Broker {
	users := &Users{}
	for _, name := range []string{"alice", "watch", "look", "esp", "bot", "gate"} {
		if err := users.Add(name, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, role := range map[string]Role{"watch": Observer, "look": Observer, "esp": Client, "bot": Client, "gate": Gateway} {
		if err := users.Grant(name, role); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Start(t.Context(), Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Users: users, Limits: Limits{WriteTimeout: time.Hour, Queue: 100}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// takeAll takes all turns of observers, or of clients.
func takeAll(t *testing.T, turns *turns) (give func()) {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	for range n {
		if err := turns.take(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for range n {
			turns.give()
		}
	}
}

const ping, pong = 0xc0, 0xd0

// waitsAlone has somebody wait, as all turns are taken, while others go on.
func waitsAlone(t *testing.T, turns *turns, who plain, others ...plain) {
	t.Helper()
	give := takeAll(t, turns)
	who.send(ping)
	for _, other := range others {
		for range 100 {
			other.send(ping)
			other.wants(pong, "")
		}
	}
	who.nothing()
	give()
	who.wants(pong, "")
}
