package promises

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"padme/pubsub"
)

// wire is the way of a participant to its broker. It can be cut, and counts publishes.
type wire struct {
	out, in atomic.Int64 // MQTT PUBLISH packets

	mu    sync.Mutex
	to    string
	gone  bool
	conns []net.Conn
}

func wireTo(url string) *wire { return &wire{to: strings.TrimPrefix(url, "mqtt://")} }

func (w *wire) option() pubsub.Option { return pubsub.WithDialer(w.dial) }

func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, errors.New("the wire is cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.to)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, conn)
	return &wired{Conn: conn, out: publishes{count: &w.out}, in: publishes{count: &w.in}}, nil
}

// cut ends all connections, and refuses others until restore.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// restore lets connections through, to a broker that may be another one.
func (w *wire) restore(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.to = false, strings.TrimPrefix(url, "mqtt://")
}

type wired struct {
	net.Conn
	out, in publishes // each seen by one goroutine at a time
}

func (w *wired) Write(b []byte) (int, error) {
	w.out.see(b)
	return w.Conn.Write(b)
}

func (w *wired) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.in.see(b[:n])
	return n, err
}

// publishes counts the PUBLISH packets of a stream.
type publishes struct {
	count          *atomic.Int64
	measuring      bool // the length of a packet, which follows its first byte
	length, digits int
	left           int // bytes of the packet
}

func (p *publishes) see(b []byte) {
	for len(b) > 0 {
		switch {
		case p.left > 0:
			n := min(p.left, len(b))
			p.left -= n
			b = b[n:]
			continue
		case !p.measuring:
			if b[0]>>4 == 3 {
				p.count.Add(1)
			}
			p.measuring, p.length, p.digits = true, 0, 0
		default:
			p.length |= int(b[0]&0x7f) << (7 * p.digits)
			if p.digits++; b[0]&0x80 == 0 {
				p.measuring, p.left = false, p.length
			}
		}
		b = b[1:]
	}
}
