//go:build linux

package hostile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// raw speaks MQTT 3.1.1 byte by byte: it does what no client library would.
type raw struct {
	net.Conn
	in *bufio.Reader
	mu sync.Mutex
	// heard are the publications that came, as far as listen has read.
	heard []publication
	id    uint16
}

type publication struct {
	topic   string
	payload []byte
}

func str(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func packet(first byte, parts ...[]byte) []byte {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

// stranger opens a connection and says nothing.
func (n *node) stranger(t *testing.T) *raw {
	t.Helper()
	c, err := net.DialTimeout("tcp", n.addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &raw{Conn: c, in: bufio.NewReader(c)}
}

// enter logs a user in, with a will on a topic if one is named, and returns the
// broker's return code.
func (n *node) enter(t *testing.T, user, password, will string) (*raw, byte) {
	t.Helper()
	c := n.stranger(t)
	flags := byte(0xc2)
	parts := [][]byte{str(user + "-raw-" + time.Now().Format("150405.000000000"))}
	if will != "" {
		flags |= 0x04 | 0x08 | 0x20 // QoS 1, retained
		parts = append(parts, str(will), str(`{"holder":"mallory"}`))
	}
	parts = append([][]byte{str("MQTT"), {4, flags, 0, 60}}, append(parts, str(user), str(password))...)
	c.send(t, packet(0x10, parts...))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var answer [4]byte
	if _, err := io.ReadFull(c.in, answer[:]); err != nil {
		t.Fatalf("no CONNACK for %s: %v", user, err)
	}
	_ = c.SetReadDeadline(time.Time{})
	return c, answer[3]
}

// as logs a user in.
func (n *node) as(t *testing.T, user string) *raw {
	t.Helper()
	c, code := n.enter(t, user, user, "")
	if code != 0 {
		t.Fatalf("%s was refused: %d", user, code)
	}
	return c
}

func (c *raw) send(t *testing.T, p []byte) {
	t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.Write(p); err != nil {
		t.Fatal(err)
	}
}

// publish sends at QoS 0, retained or not, and waits for nothing.
func (c *raw) publish(t *testing.T, topic string, payload []byte, retain bool) {
	t.Helper()
	first := byte(0x30)
	if retain {
		first |= 1
	}
	c.send(t, packet(first, str(topic), payload))
}

// listen subscribes and reads until the connection ends.
func (c *raw) listen(t *testing.T, filter string) {
	t.Helper()
	c.id++
	c.send(t, packet(0x82, binary.BigEndian.AppendUint16(nil, c.id), str(filter), []byte{0}))
	granted := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			first, body, err := c.next()
			switch {
			case err != nil:
				return
			case first == 0x90:
				close(granted)
			case first&0xf0 == 0x30 && len(body) >= 2:
				n := int(binary.BigEndian.Uint16(body))
				c.mu.Lock()
				c.heard = append(c.heard, publication{string(body[2 : 2+n]), body[2+n:]})
				c.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	select {
	case <-granted:
	case <-time.After(patience):
		t.Fatal("no SUBACK")
	}
}

func (c *raw) next() (byte, []byte, error) {
	first, err := c.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(c.in)
	if err != nil || n > 16<<20 {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	body := make([]byte, n)
	_, err = io.ReadFull(c.in, body)
	return first, body, err
}

func (c *raw) got() []publication {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]publication{}, c.heard...)
}

// gone waits until the broker has closed the connection.
func (c *raw) gone(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c.in); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the broker keeps the connection")
	}
}
