package broker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"padme/broker"
)

// rawConn speaks MQTT byte by byte, as badly as a test wants.
type rawConn struct {
	net.Conn
	t testing.TB
}

func raw(t testing.TB, b *broker.Broker) *rawConn {
	t.Helper()
	var c net.Conn
	var err error
	if b.TCPAddr() != nil {
		c, err = net.Dial("tcp", b.TCPAddr().String())
	} else {
		c, err = b.Dial(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawConn{Conn: c, t: t}
}

func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func packet(first byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

func (c *rawConn) send(p []byte) {
	c.t.Helper()
	if _, err := c.Write(p); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one packet.
func (c *rawConn) receive() (first byte, body []byte) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		c.t.Fatalf("no packet: %v", err)
	}
	first = b[0]
	n, err := binary.ReadUvarint(byteReader{c})
	if err != nil {
		c.t.Fatal(err)
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatal(err)
	}
	return first, body
}

type byteReader struct{ io.Reader }

func (r byteReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}

// connect sends a clean MQTT 3.1.1 CONNECT with user as password and a will,
// if any, at QoS 1 and retained.
func (c *rawConn) connect(id, user, willTopic, willPayload string) {
	c.t.Helper()
	flags := byte(2)
	body := text(id)
	if willTopic != "" {
		flags |= 4 | 8 | 32
		body = append(append(body, text(willTopic)...), text(willPayload)...)
	}
	if user != "" {
		flags |= 0xc0
		body = append(append(body, text(user)...), text(user)...)
	}
	c.send(packet(0x10, text("MQTT"), []byte{4, flags, 0, 60}, body))
	if first, body := c.receive(); first != 0x20 || body[1] != 0 {
		c.t.Fatalf("CONNACK %#x %v", first, body)
	}
}

// gone waits until the broker has closed the connection.
func (c *rawConn) gone() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); err != nil {
		if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
			c.t.Fatal("the connection is still open")
		}
	}
}
