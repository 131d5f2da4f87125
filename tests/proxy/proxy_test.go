package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is the address of a server that returns what it is sent.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// client is a connection through a proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, p *Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{t, c, bufio.NewReader(c)}
}

func (c client) send() {
	c.t.Helper()
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		c.t.Fatal(err)
	}
}

// receive waits for a line.
func (c client) receive(within time.Duration) error {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.lines.ReadString('\n')
	return err
}

func (c client) mustReceive() {
	c.t.Helper()
	if err := c.receive(10 * time.Second); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) mustEnd() {
	c.t.Helper()
	if err := c.receive(10 * time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the connection goes on: %v", err)
	}
}

func TestWhatIsHeldArrivesLater(t *testing.T) {
	p := Start(t, "mqtt://"+echo(t))
	c := connect(t, p)
	for _, directions := range [][]Direction{{ToServer}, {FromServer}, {ToServer, FromServer}} {
		p.Hold(directions...)
		c.send()
		if err := c.receive(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while %v is held: %v", directions, err)
		}
		p.Release()
		c.mustReceive()
	}
	p.Delay(30 * time.Millisecond)
	begin := time.Now()
	c.send()
	c.mustReceive()
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("there and back with a delay of 30 ms each: %v", took)
	}
}

func TestConnectionsEnd(t *testing.T) {
	p := Start(t, echo(t))
	for _, end := range []func(){p.Break, p.ResetAll, p.Cut} {
		c := connect(t, p)
		c.send()
		c.mustReceive()
		end()
		c.mustEnd()
	}
	connect(t, p).mustEnd()
	p.Restore()
	c := connect(t, p)
	c.send()
	c.mustReceive()
	p.Freeze() // its end is not held up by that
}
