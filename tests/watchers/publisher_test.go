//go:build unix

package watchers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// publisher is a bare MQTT 3.1.1 client that publishes at QoS 1 and counts the
// acknowledgements. It shows whether the broker holds publishers up.
type publisher struct {
	conn  net.Conn
	acked atomic.Int64
	done  chan struct{} // closed when the reading has ended
}

// newPublisher connects; it is closed at the end of the test.
func newPublisher(t *testing.T, broker string) *publisher {
	t.Helper()
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{conn: conn, done: make(chan struct{})}
	connect := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60}, field("flood")...)
	if _, err := conn.Write(packet(0x10, connect)); err != nil {
		t.Fatal(err)
	}
	var connack [4]byte
	if _, err := io.ReadFull(conn, connack[:]); err != nil || connack[3] != 0 {
		t.Fatalf("CONNACK % x: %v", connack, err)
	}
	go func() {
		defer close(p.done)
		in := bufio.NewReader(conn)
		var puback [4]byte
		for {
			if _, err := io.ReadFull(in, puback[:]); err != nil {
				return
			}
			p.acked.Add(1)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-p.done
	})
	return p
}

// flood publishes n messages to topic without waiting for acknowledgements,
// until the connection takes no more for a second.
func (p *publisher) flood(t *testing.T, topic string, payload []byte, n int) {
	t.Helper()
	out := bufio.NewWriter(p.conn)
	for i := range n {
		body := binary.BigEndian.AppendUint16(field(topic), uint16(i%65535+1))
		if err := p.conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err := out.Write(packet(0x32, append(body, payload...)))
		if err == nil && i == n-1 {
			err = out.Flush()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// packet puts the fixed header before body.
func packet(kind byte, body []byte) []byte {
	out := []byte{kind}
	for n := len(body); ; {
		b := byte(n & 0x7f)
		if n >>= 7; n > 0 {
			out = append(out, b|0x80)
			continue
		}
		return append(append(out, b), body...)
	}
}

func field(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}
