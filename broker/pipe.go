package broker

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is what one direction of an in-process connection holds.
const pipeBuffer = 16 << 10

// newPipe returns the two ends of a buffered in-process connection. net.Pipe
// would do, but its writer waits for the reader on every write.
func newPipe() (client, server net.Conn) {
	up, down := newHalf(), newHalf()
	return &pipeConn{in: down, out: up}, &pipeConn{in: up, out: down}
}

type pipeConn struct{ in, out *half }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions; what was written before can still be read by the
// other end.
func (c *pipeConn) Close() error {
	c.in.close(true)
	c.out.close(false)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.in.reader.set(t)
	c.out.writer.set(t)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error  { c.in.reader.set(t); return nil }
func (c *pipeConn) SetWriteDeadline(t time.Time) error { c.out.writer.set(t); return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in-process" }

// half is one direction: a ring of bytes with a waiting place at either end.
type half struct {
	mu             sync.Mutex
	buf            []byte
	start, n       int
	noMore         bool // the writing end was closed: read what is left, then EOF
	broken         bool // the reading end was closed
	reader, writer side
}

// side is where a reader or a writer waits until it may go on, or its deadline.
type side struct {
	h        *half
	wake     sync.Cond
	waiting  int
	deadline time.Time
	timer    *time.Timer
	alarm    time.Time // when timer fires; zero when it is not set
}

func newHalf() *half {
	h := &half{buf: make([]byte, pipeBuffer)}
	h.reader = side{h: h}
	h.writer = side{h: h}
	h.reader.wake.L, h.writer.wake.L = &h.mu, &h.mu
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.broken:
			return 0, net.ErrClosed
		case h.reader.expired():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case h.n > 0:
			n := copy(p, h.buf[h.start:min(h.start+h.n, len(h.buf))])
			n += copy(p[n:], h.buf[:h.n-n]) // what has wrapped around
			h.start = (h.start + n) % len(h.buf)
			h.n -= n
			h.writer.notify()
			return n, nil
		case h.noMore:
			return 0, io.EOF
		}
		h.reader.wait()
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	written := 0
	for {
		switch {
		case h.noMore:
			return written, net.ErrClosed
		case h.broken:
			return written, io.ErrClosedPipe
		case h.writer.expired():
			return written, os.ErrDeadlineExceeded
		case written == len(p):
			return written, nil
		}
		n := h.put(p[written:])
		if written += n; n == 0 {
			h.writer.wait()
		}
	}
}

// try writes what there is room for.
func (h *half) try(p []byte) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noMore || h.broken {
		return 0 // write tells
	}
	return h.put(p)
}

// put writes what there is room for. The caller holds mu.
func (h *half) put(p []byte) int {
	p = p[:min(len(h.buf)-h.n, len(p))]
	if len(p) == 0 {
		return 0
	}
	n := copy(h.buf[(h.start+h.n)%len(h.buf):], p)
	copy(h.buf, p[n:])
	h.n += len(p)
	h.reader.notify()
	return len(p)
}

func (h *half) close(reading bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reading {
		h.broken = true
	} else {
		h.noMore = true
	}
	for _, s := range []*side{&h.reader, &h.writer} {
		if s.timer != nil {
			s.timer.Stop()
		}
		s.wake.Broadcast()
	}
}

func (s *side) expired() bool {
	return !s.deadline.IsZero() && !time.Now().Before(s.deadline)
}

func (s *side) notify() {
	if s.waiting > 0 {
		s.wake.Broadcast()
	}
}

func (s *side) wait() {
	s.arm()
	s.waiting++
	s.wake.Wait()
	s.waiting--
}

// arm sets the timer only when it would ring too late or not at all. A deadline
// that moves on with every packet therefore costs one early ring now and then
// in place of a timer for each packet.
func (s *side) arm() {
	if s.deadline.IsZero() || !s.alarm.IsZero() && !s.alarm.After(s.deadline) {
		return
	}
	s.alarm = s.deadline
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(s.deadline), s.ring)
		return
	}
	s.timer.Reset(time.Until(s.deadline))
}

func (s *side) ring() {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.alarm = time.Time{}
	s.wake.Broadcast()
}

func (s *side) set(t time.Time) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.deadline = t
	s.notify()
}
