package broker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/certs"
)

// Of what many strangers have sent at once, a bounded part is processed at a time, until more is read of
// its connection: not until it is answered, as TLS answers whatever a stranger likes.
func TestWhatStrangersSendHasTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(Limits{Unauthenticated: 1000, UnauthenticatedPerAddress: 1000, PasswordChecks: 2, PasswordWait: time.Minute, WriteTimeout: time.Minute}, func(limit, _, _ string) { t.Error(limit) })
		var now, processed atomic.Int32
		goOn := make(chan bool)
		for range 100 {
			near, far := net.Pipe()
			g := d.admit(at{far})
			go func() {
				for b := make([]byte, 1); ; {
					if _, err := g.Read(b); err != nil {
						return
					}
					now.Add(1)
					_, _ = g.Write([]byte("answered"))
					<-goOn
					now.Add(-1)
					processed.Add(1)
				}
			}()
			go func() { _, _ = io.Copy(io.Discard, near) }()
			go func() { _, _ = near.Write([]byte("x")) }()
			t.Cleanup(func() { _ = g.Close(); _ = near.Close() })
		}
		for range 100 {
			synctest.Wait()
			if n := now.Load(); n != 2 && processed.Load() < 99 {
				t.Fatalf("%d are processed at a time, after %d", n, processed.Load())
			}
			goOn <- true
		}
		synctest.Wait()
		if d.turns.free != 2 || processed.Load() != 100 {
			t.Errorf("%d turns are free after %d, while all wait for the network", d.turns.free, processed.Load())
		}
	})
}

// Thousands at one address do not keep one out that comes from another.
func TestStrangersElsewhereGetTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(Limits{Unauthenticated: 1000, UnauthenticatedPerAddress: 1000, PasswordChecks: 1, PasswordWait: time.Minute, WriteTimeout: time.Minute}, func(limit, _, _ string) { t.Error(limit) })
		var mu sync.Mutex
		var served []string
		come := func(address string) {
			near, far := net.Pipe()
			g := d.admit(&from{Conn: far, address: address})
			go func() {
				if _, err := g.Read(make([]byte, 1)); err == nil {
					mu.Lock()
					defer mu.Unlock()
					served = append(served, address)
				}
			}()
			_, _ = near.Write([]byte("x"))
			synctest.Wait()
		}
		if err := d.turns.take(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			come("192.0.2.1")
		}
		come("198.51.100.7")
		for range 2 {
			d.turns.give()
			synctest.Wait()
		}
		mu.Lock()
		if want := []string{"192.0.2.1", "198.51.100.7"}; !slices.Equal(served, want) {
			t.Errorf("served %q, want %q", served, want)
		}
		mu.Unlock()
		for d.guests.Len() > 0 {
			g := d.guests.Front().Value.(*guest)
			_ = g.Close()
			_ = g.Conn.(*from).Conn.Close()
		}
	})
}

// Who is known while what it has sent waits for a turn needs none any more.
func TestWhoIsKnownNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(Limits{Unauthenticated: 10, PasswordChecks: 1, PasswordWait: time.Minute, WriteTimeout: time.Minute}, func(limit, _, _ string) { t.Error(limit) })
		if !d.turns.takeFree() || d.turns.takeFree() {
			t.Fatal("there is not one turn")
		}
		near, far := net.Pipe()
		g := d.admit(at{far})
		read := make(chan error, 1)
		go func() {
			_, err := g.Read(make([]byte, 1))
			read <- err
		}()
		_, _ = near.Write([]byte("x"))
		synctest.Wait()
		g.known()
		if err := <-read; err != nil {
			t.Errorf("it is read with %v", err)
		}
		if g.giveTurn(); d.turns.free != 0 {
			t.Error("it gives a turn that it never had")
		}
		_, _ = g.Close(), near.Close()
	})
}

// waysIn are those into a broker, for somebody without an account.
var waysIn = []string{"mqtt", "mqtts", "ws", "wss"}

// enter opens a connection on one of the ways to a new broker, and returns what a client has to say on it
// until it is let in, in pieces; it is to be answered after the second one of a WebSocket, and the last one.
func enter(t *testing.T, way string, cfg Config, login []byte) (b *Broker, c net.Conn, pieces [][]byte) {
	t.Helper()
	ca := certs.New()
	if way == "mqtts" || way == "wss" {
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("localhost", time.Now().Add(time.Hour))}}
	}
	web := way == "ws" || way == "wss"
	if web {
		cfg.WebSocket = "127.0.0.1:0"
	} else {
		cfg.TCP = "127.0.0.1:0"
	}
	cfg.Limits.ConnectTimeout, cfg.Limits.PasswordWait = time.Minute, time.Minute
	b = started(t, cfg)
	l := b.tcp
	if web {
		l = b.ws
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.TLS != nil {
		c = tls.Client(c, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
	}
	t.Cleanup(func() { _ = c.Close() })
	if web {
		pieces = append(pieces, []byte("GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"),
			[]byte("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"))
		login = append([]byte{0x82, 0x80 | byte(len(login)), 0, 0, 0, 0}, login...) // masked with zeros
	}
	return b, c, append(pieces, login[:len(login)/2], login[len(login)/2:])
}

// waiting waits until so many wait for a turn.
func waiting(t *testing.T, at *turns, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n := 0
		at.mu.Lock()
		for _, l := range at.at {
			for _, named := range l.named {
				n += len(named)
			}
		}
		at.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait for a turn, want %d", n, want)
		}
	}
}

// given waits until all turns of strangers are free.
func (b *Broker) given(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b.door.turns.mu.Lock()
		free := b.door.turns.free
		b.door.turns.mu.Unlock()
		if free == b.cfg.Limits.PasswordChecks {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it keeps its turn")
		}
	}
}

// On each way in whatever comes waits for its turn until the CONNECT is complete, and has none while
// the next of it is on a slow network.
func TestEachPieceOfAConnectHasATurn(t *testing.T) {
	for _, way := range waysIn {
		t.Run(way, func(t *testing.T) {
			b, c, pieces := enter(t, way, Config{}, hello("alice", "alice"))
			if secure, ok := c.(*tls.Conn); ok {
				if err := secure.Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			r := bufio.NewReader(c)
			for i, piece := range pieces {
				b.given(t)
				if err := b.door.turns.take(t.Context(), "", ""); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write(piece); err != nil {
					t.Fatal(err)
				}
				waiting(t, b.door.turns, 1)
				b.door.turns.give()
				if len(pieces) == 4 && i == 1 {
					for line := "101"; line != "\r\n"; {
						var err error
						if line, err = r.ReadString('\n'); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			connack := make([]byte, 4+2*(len(pieces)/4))
			if _, err := io.ReadFull(r, connack); err != nil || !bytes.HasSuffix(connack, []byte{0x20, 2, 0, 0}) {
				t.Errorf("CONNACK %x, %v", connack, err)
			}
			b.given(t)
		})
	}
}

// What comes after a CONNECT whose password waits to be checked has turns, too, and whoever waits for
// its password keeps none.
func TestWhatComesAfterAConnectHasATurn(t *testing.T) {
	for _, way := range waysIn {
		t.Run(way, func(t *testing.T) {
			b, c, pieces := enter(t, way, Config{Users: alone(t)}, hello("alice", "wrong"))
			guess(t, b)
			for i, piece := range pieces {
				if _, err := c.Write(piece); err != nil {
					t.Fatal(err)
				}
				if len(pieces) == 4 && i == 1 {
					if _, err := c.Read(make([]byte, 1000)); err != nil {
						t.Fatal(err)
					}
				}
			}
			waiting(t, b.access.turns, 1)
			b.given(t)
			if err := b.door.turns.take(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte{0x82, 0x82, 0, 0, 0, 0, 0xc0, 0}); err != nil {
				t.Fatal(err)
			}
			waiting(t, b.door.turns, 1)
			b.door.turns.give()
			b.given(t)
			waiting(t, b.access.turns, 1)
		})
	}
}

// Nor does one whose CONNECT was read, and that waits for anything else.
func TestWhoWaitsForAnotherTurnKeepsNone(t *testing.T) {
	b := observed(t)
	logIn(t, b, "watch")
	give := takeAll(t, b.observers)
	again := dialed(t, b)
	again.logIn("watch", 0) // whose password need not be checked any more
	waiting(t, b.observers, 1)
	b.given(t)
	give()
	again.wants(0x20, "\x00\x00")
}

// Whoever leaves while it waits for a turn leaves nothing behind, and the end of the broker ends those
// that wait.
func TestWhoWaitsForATurnMayLeave(t *testing.T) {
	for _, way := range waysIn {
		t.Run(way, func(t *testing.T) {
			b, c, _ := enter(t, way, Config{}, hello("alice", "alice"))
			if err := b.door.turns.take(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			come := func() net.Conn {
				other, err := net.Dial("tcp", c.RemoteAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				return other
			}
			for range 20 {
				_ = come().Close()
			}
			waiting(t, b.door.turns, 20)
			b.door.turns.give()
			waiting(t, b.door.turns, 0)
			b.given(t)
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				b.door.mu.Lock()
				n := b.door.guests.Len()
				b.door.mu.Unlock()
				if n == 1 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d have a place", n)
				}
			}
			if err := b.door.turns.take(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			stays := come()
			defer func() { _ = stays.Close() }()
			waiting(t, b.door.turns, 1)
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
			waiting(t, b.door.turns, 0)
		})
	}
}
