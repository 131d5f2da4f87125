package cable

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// party is one who sends over a cable, and what arrives at either end.
type party struct {
	conn           net.Conn
	broker         net.Conn
	atBroker, back chan string
}

func arrivals(c net.Conn) chan string {
	all := make(chan string, 100)
	go func() {
		defer close(all)
		b := make([]byte, 100)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			all <- string(b[:n])
		}
	}()
	return all
}

// connect dials over a cable made of pipes.
func connect(t *testing.T, c *Cable, accepted <-chan net.Conn) *party {
	t.Helper()
	conn, err := c.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &party{conn: conn, broker: <-accepted}
	p.atBroker, p.back = arrivals(p.broker), arrivals(conn)
	return p
}

// speak has both sides say a word, and returns how many words have arrived by then.
func (p *party) speak() (atBroker, back int) {
	for _, c := range []net.Conn{p.conn, p.broker} {
		go func() { _, _ = c.Write([]byte("word")) }()
		synctest.Wait()
	}
	return len(p.atBroker), len(p.back)
}

func TestCable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := make(chan net.Conn, 1)
		dialed := errors.New("nobody listens")
		fails := false
		c := New(New(func(context.Context) (net.Conn, error) { // one over the other
			if fails {
				return nil, dialed
			}
			near, far := net.Pipe()
			accepted <- far
			return near, nil
		}).Dial)
		p := connect(t, c, accepted)
		expect := func(when string, atBroker, back int) {
			t.Helper()
			if a, b := p.speak(); a != atBroker || b != back {
				t.Errorf("%s: %d words at the broker and %d back, want %d and %d", when, a, b, atBroker, back)
			}
		}
		expect("at first", 1, 1)
		c.Mute(true)
		expect("mute", 1, 1)
		c.Mute(false)
		c.Deafen(true)
		expect("deaf", 2, 1)
		c.Deafen(false)
		c.HoldSent()
		expect("what is sent is held", 2, 2)
		c.Release()
		synctest.Wait()
		expect("released", 4, 3)
		c.HoldReceived()
		expect("what comes back is held", 5, 3)
		c.Release()
		synctest.Wait()
		expect("released again", 6, 5)
		if n := c.Sent(); n != 7*int64(len("word")) {
			t.Errorf("%d bytes were sent", n)
		}

		for name, end := range map[string]func(){"break": c.Break, "lose": func() { c.Lose(0) }, "cut": c.Cut} {
			c.Restore()
			c.Break()
			p = connect(t, c, accepted)
			c.HoldReceived()
			expect("held", 1, 0)
			end()
			c.Release()
			synctest.Wait()
			if _, ok := <-p.back; ok {
				t.Errorf("%s: a word of a connection that has ended arrives", name)
			}
		}
		c.Cut()
		if _, err := c.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("over a cable that is cut: %v", err)
		}
		c.Restore()
		fails = true
		if _, err := c.Dial(t.Context()); !errors.Is(err, dialed) {
			t.Errorf("where nobody listens: %v", err)
		}
	})
}
