package connection

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxPacket bounds an MQTT packet from the broker, in bytes.
const maxPacket = 2 << 20

// stream is the byte stream to the broker, between the socket and the MQTT
// client. It reads ahead, which saves three system calls a packet, and looks at the
// frames before the client does: the client allocates by any length it is told and
// indexes by the number of codes in a SUBACK. It keeps what takes a shorter way: see
// takePublish. Its writes do not hold the client up: see outgoing.
type stream struct {
	net.Conn
	r      *bufio.Reader
	left   int         // bytes of the current packet not yet handed on
	begun  bool        // the answer to the CONNECT was handed on
	acks   []byte      // acknowledgements to be written
	closed atomic.Bool // by the MQTT client
	out    outgoing

	parting atomic.Bool   // the DISCONNECT was written
	ended   chan struct{} // closed when nothing is read any more
	end     sync.Once     // closes it

	cause   atomic.Pointer[error] // why the connection is lost
	handing sync.Mutex            // held while the MQTT client is handed something
	over    bool                  // it is handed nothing any more; guarded by handing

	receive  func(topic string, payload []byte, retained bool) // called by who reads
	retained func()                                            // a message at QoS 1; before receive
	acked    func(id uint16)
}

func newStream(c net.Conn, stall time.Duration) *stream {
	s := &stream{Conn: c, r: bufio.NewReader(c), ended: make(chan struct{})}
	s.out.init(c, stall, func(err error) { _ = s.fail(s.loss(err)) })
	return s
}

// Read tells the MQTT client of a loss, and only when no call hands it anything, after
// which none does. The client stops taking what it is handed when it learns of a loss,
// and a call at that moment would wait for the whole write timeout. Until then the
// connection is closed and writes succeed, so that the call ends at once.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.read(p)
	if err == nil {
		return n, nil
	}
	err = s.fail(err)
	s.end.Do(func() { close(s.ended) })
	s.handing.Lock()
	defer s.handing.Unlock()
	s.over = true
	return n, err
}

// fail closes the connection after an error, and returns the first one.
func (s *stream) fail(err error) error {
	s.cause.CompareAndSwap(nil, &err)
	_ = s.Conn.Close()
	return *s.cause.Load()
}

func (s *stream) read(p []byte) (int, error) {
	if s.left == 0 {
		if err := s.nextPacket(); err != nil {
			return 0, err
		}
	}
	if len(p) > s.left {
		p = p[:s.left]
	}
	n, err := s.r.Read(p)
	s.left -= n
	return n, s.loss(err)
}

// loss renames the error of a connection that somebody else closed on our side,
// say a dialer that simulates a radio. The MQTT client takes net.ErrClosed for its
// own doing and does not notice the loss.
func (s *stream) loss(err error) error {
	if errors.Is(err, net.ErrClosed) && !s.closed.Load() {
		return fmt.Errorf("%w: the connection was closed on this side", errStream)
	}
	return err
}

// Write is for the MQTT client, and never fails: Read tells it of the loss.
func (s *stream) Write(p []byte) (int, error) {
	if p[0]>>4 == typeDisconnect {
		s.parting.Store(true)
		s.out.finish(p)
		return len(p), nil
	}
	s.out.put(p)
	return len(p), nil
}

// post writes what the MQTT client has nothing to add to, in two parts that need not be
// copied together.
func (s *stream) post(head, rest []byte) error { return s.loss(s.out.write(head, rest)) }

// Close is for the MQTT client. What it has written before, its DISCONNECT last, goes out
// if the network takes it soon. Then the broker closes the connection. If we did while it
// sends us something, its write would fail, and it would take us for lost and publish the
// will before it reads the DISCONNECT.
func (s *stream) Close() error {
	s.closed.Store(true)
	enough := time.NewTimer(Politeness)
	defer enough.Stop()
	s.out.drain(Politeness)
	if s.parting.Load() {
		select {
		case <-s.ended:
		case <-enough.C:
		}
	}
	return s.Conn.Close()
}

// cut ends the connection at once.
func (s *stream) cut() {
	s.closed.Store(true)
	_ = s.Conn.Close()
}

// cutAfter ends the connection after some time, unless unless is closed before.
func (s *stream) cutAfter(d time.Duration, unless <-chan struct{}) {
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-unless:
	case <-enough.C:
		s.cut()
	}
}

// nextPacket looks at the next packet for the MQTT client without consuming it, and takes
// the others.
func (s *stream) nextPacket() error {
	for {
		if s.parting.Load() {
			_, _ = io.Copy(io.Discard, s.r)
			return net.ErrClosed
		}
		s.acknowledge()
		h, err := s.peek()
		switch {
		case err != nil:
			return err
		case !s.begun:
			s.begun = true
		case h.kind == typePublish:
			if err := s.takePublish(h); err != nil {
				return err
			}
			continue
		case h.kind == typePuback:
			if err := s.takePuback(h); err != nil {
				return err
			}
			continue
		}
		s.left = h.size + h.length
		return nil
	}
}

// peek looks at the next fixed header without consuming it.
func (s *stream) peek() (h fixedHeader, err error) {
	for i, shift := 1, 0; ; i, shift = i+1, shift+7 {
		b, err := s.r.Peek(i + 1)
		if err != nil {
			return h, s.loss(err)
		}
		h.length |= int(b[i]&0x7f) << shift
		if b[i]&0x80 == 0 {
			h.kind, h.flags, h.size = b[0]>>4, b[0]&0xf, i+1
			break
		}
		if i == 4 {
			return h, fmt.Errorf("%w: the length of a packet has more than four bytes", errStream)
		}
	}
	switch {
	case h.kind == typeSuback && h.length != 3:
		return h, fmt.Errorf("%w: the broker answered a subscription to one topic with %d bytes", errStream, h.length)
	case h.length > maxPacket:
		return h, fmt.Errorf("%w: a packet of %d bytes, the most is %d", errStream, h.length, maxPacket)
	}
	return h, nil
}

// SetWriteDeadline does nothing: the MQTT client would set and reset it around
// every publish, but not around acknowledgements and pings. Write does it.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is used by the MQTT client for the handshake.
func (s *stream) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// errStream marks bytes from the broker which are not MQTT 3.1.1.
var errStream = errors.New("pubsub: not MQTT")
