package radio_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/radio"
	"padme/tests/bubble"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo accepts TCP connections and sends back what arrives.
func echo(t *testing.T) radio.Dial {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", listener.Addr().String())
	}
}

func ping(c net.Conn) error {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestCutBreaksConnectionsAndRestoreLetsNewOnesIn(t *testing.T) {
	link := radio.New(echo(t))
	first, err := link.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := ping(first); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	link.Cut() // no contact cannot be lost
	if err := ping(first); err == nil || errors.Is(err, net.ErrClosed) {
		t.Fatalf("using a cut connection: %v, want a loss which is not taken for a hang-up", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := link.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dialled without contact: %v", err)
	}
	link.Restore()
	second, err := link.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := ping(second); err != nil {
		t.Fatal(err)
	}
	if link.Cuts() != 1 {
		t.Fatalf("%d cuts, want 1", link.Cuts())
	}
}

func TestWaitingDialGoesThroughWhenContactReturns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		far, near := net.Pipe()
		defer far.Close()
		link := radio.New(func(context.Context) (net.Conn, error) { return near, nil })
		link.Cut()
		go func() {
			time.Sleep(3 * time.Second)
			link.Restore()
		}()
		start := time.Now()
		c, err := link.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if waited := time.Since(start); waited != 3*time.Second {
			t.Fatalf("waited %v, want 3s", waited)
		}
	})
}

// A connection which was being opened when the link was cut must not survive.
func TestCutDuringDial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var opened []net.Conn
		var link *radio.Link
		link = radio.New(func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			opened = append(opened, far)
			if len(opened) == 1 {
				link.Cut()
				time.AfterFunc(time.Second, link.Restore)
			}
			return near, nil
		})
		c, err := link.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(opened) != 2 {
			t.Fatalf("%d connections opened, want the broken one and a second", len(opened))
		}
		if _, err := opened[0].Read(make([]byte, 1)); err == nil {
			t.Fatal("the first connection is still open")
		}
	})
}

// What dials over a broken link gives up at once, and stays cut whatever is
// restored.
func TestBrokenLinkStaysSo(t *testing.T) {
	for _, before := range []func(*radio.Link){func(*radio.Link) {}, (*radio.Link).Cut, (*radio.Link).Break} {
		near, far := net.Pipe()
		defer far.Close()
		l := radio.New(func(context.Context) (net.Conn, error) { return near, nil })
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before(l)
		waits := make(chan error, 1)
		go func() {
			_, err := l.Dial(t.Context())
			waits <- err
		}()
		l.Break()
		l.Restore()
		if _, err := l.Dial(t.Context()); err == nil {
			t.Error("a broken link connects")
		}
		<-waits // with an error or, before it was broken, without
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a broken link carries")
		}
	}
}
