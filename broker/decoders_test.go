package broker

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"padme/tests/poll"
)

// framed sends and receives short WebSocket messages.
type framed struct {
	net.Conn
	reader *bufio.Reader
	left   int // of the message that is read
}

func (f *framed) Write(p []byte) (int, error) {
	_, err := f.Conn.Write(append([]byte{0x82, 0x80 | byte(len(p)), 0, 0, 0, 0}, p...))
	return len(p), err
}

func (f *framed) Read(p []byte) (int, error) {
	if f.left == 0 {
		head := make([]byte, 2)
		if _, err := io.ReadFull(f.reader, head); err != nil {
			return 0, err
		}
		f.left = int(head[1])
	}
	n, err := f.reader.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// overWebSocket makes a connection of a user, and one to what is below its frames.
func overWebSocket(t *testing.T, b *Broker, user string) (p plain, below net.Conn) {
	t.Helper()
	below, err := net.Dial("tcp", b.WebSocketAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = below.Close() })
	_, _ = io.WriteString(below, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
	f := &framed{Conn: below, reader: bufio.NewReader(below)}
	for line := " "; line != ""; {
		if line, err = f.reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSpace(line)
	}
	p = plain{f, t}
	p.logIn(user, 0)
	p.wants(0x20, "\x00\x00")
	return p, below
}

// takeDecoders takes all turns of clients and observers.
func (b *Broker) takeDecoders(t *testing.T) (give func()) {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	for range n {
		if err := b.decoders.others.take(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for range n {
			b.decoders.others.give()
		}
	}
}

// What clients and observers send over WebSocket or TLS is decoded in turns of theirs. Others do not
// wait, nor does who needs no decoder.
func TestWhatUsersSendIsDecodedInTurns(t *testing.T) {
	b := observed(t)
	alice, _ := overWebSocket(t, b, "alice")
	watch, below := overWebSocket(t, b, "watch")
	look := logIn(t, b, "look")
	give := b.takeDecoders(t)
	watch.send(ping)
	for range 10 {
		alice.send(ping)
		alice.wants(pong, "")
		look.send(ping)
		look.wants(pong, "")
	}
	_ = below.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := below.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the ping of an observer was decoded without a turn: %v", err)
	}
	give()
	watch.wants(pong, "")
}

// Frames with nothing in them are decoded in turns, too, although no packet ever comes of them.
func TestFramesWithNothingInThemAreDecodedInTurns(t *testing.T) {
	b := observed(t)
	watch, below := overWebSocket(t, b, "watch")
	watch.send(ping)
	watch.wants(pong, "")
	give := b.takeDecoders(t)
	written := make(chan error, 1)
	go func() {
		nothing := bytes.Repeat([]byte{0x82, 0x80, 0, 0, 0, 0}, 10_000)
		_ = below.(*net.TCPConn).SetWriteBuffer(4096)
		_ = below.SetWriteDeadline(time.Now().Add(20 * time.Second))
		for range 40 { // more than the buffers of the network
			if _, err := below.Write(nothing); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	select {
	case err := <-written:
		t.Errorf("2.4 MB of frames were decoded without a turn: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	give()
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// Who sends a part of something, or leaves while it waits, does not keep a turn.
func TestADecodersTurnEnds(t *testing.T) {
	b := observed(t)
	_, half := overWebSocket(t, b, "watch")
	if _, err := half.Write([]byte{0x82, 0x80 | 2, 0}); err != nil {
		t.Fatal(err)
	}
	look, _ := overWebSocket(t, b, "look")
	for range 100 {
		look.send(ping)
		look.wants(pong, "")
	}
	for range runtime.GOMAXPROCS(0) { // more than there are turns
		gone, _ := overWebSocket(t, b, "watch")
		give := b.takeDecoders(t)
		gone.send(ping)
		time.Sleep(10 * time.Millisecond) // the test is as strong whether it has come or not
		_ = gone.Close()
		give()
	}
	look.send(ping)
	look.wants(pong, "")
}

// What was read before, behind a packet, is decoded in a turn, too.
func TestWhatWasReadBeforeIsDecodedInATurn(t *testing.T) {
	b := observed(t)
	peer, end := net.Pipe()
	defer peer.Close()
	g := b.door.admit(end)
	c := newConn(tls.Server(g, &tls.Config{}), b.cfg.Limits)
	c.share, c.decoders = b.shares.enter("watch"), newTurns(0)
	ended := make(chan error, 1)
	go func() {
		_, err := c.receive(make([]byte, 1))
		ended <- err
	}()
	_ = peer.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := peer.Write([]byte{22}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the decoder went on without a turn: %v", err)
	}
	_ = g.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

// Users of whom much was decoded lately have every second turn together, so one that sends little waits
// for one of them, and not for as many as there are.
func TestHeavyUsersWaitTogether(t *testing.T) {
	var of share
	now := time.Now().UnixNano()
	of.decoded(now, 40*time.Microsecond)
	if of.isHeavy(now) {
		t.Error("a few packets make a user heavy")
	}
	of.decoded(now, time.Hour)
	if !of.isHeavy(now) || of.isHeavy(now+int64(10*time.Second)) {
		t.Error("a long turn does not make a user heavy, or for longer than it may")
	}
	b := observed(t)
	for _, user := range []*share{{name: "look"}, {name: "watch"}} {
		peer, end := net.Pipe()
		defer peer.Close()
		g := b.door.admit(end)
		c := newConn(g, b.cfg.Limits)
		c.share, c.decoders = user, newTurns(0)
		line := ""
		if user.name == "watch" {
			line = "heavy"
			user.decoded(time.Now().UnixNano(), time.Second)
		}
		done := make(chan error, 1)
		go func() { done <- g.takeUsersTurn(c) }()
		waits := func() bool {
			c.decoders.mu.Lock()
			defer c.decoders.mu.Unlock()
			return c.decoders.at[line] != nil && len(c.decoders.at[line].named[user.name]) == 1
		}
		poll.UntilOr(t, waits, func() string { return fmt.Sprintf("%s does not wait among %q", user.name, line) })
		c.decoders.give()
		if err := <-done; err != nil {
			t.Error(err)
		}
		before := user.heavyUntil.Load()
		g.charged.Store(c)
		if g.giveTurn(); user.heavyUntil.Load() <= before {
			t.Error("what was decoded in a turn is not noted")
		}
	}
}

// Of several pings that came together the newest is answered.
func TestTheNewestPingIsAnswered(t *testing.T) {
	b := observed(t)
	_, below := overWebSocket(t, b, "watch")
	if _, err := below.Write([]byte("\x89\x81\x00\x00\x00\x00a\x89\x81\x00\x00\x00\x00b\x82\x82\x00\x00\x00\x00\xc0\x00")); err != nil {
		t.Fatal(err)
	}
	want, got := "\x82\x02\xd0\x00\x8a\x01b", make([]byte, 7)
	_ = below.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(below, got); err != nil || string(got) != want {
		t.Errorf("it is answered %q, not %q: %v", got, want, err)
	}
	plain{below, t}.nothing()
}
