package pubsub

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxPacket bounds an MQTT packet from the broker, in bytes.
const maxPacket = 2 << 20

// stream is the byte stream to the broker, between the socket and the MQTT
// client. It reads ahead, which saves three system calls a packet, bounds how
// long a write may stall, and looks at the frames before the client does: the
// client allocates by any length it is told and indexes by the number of codes
// in a SUBACK.
type stream struct {
	net.Conn
	r       *bufio.Reader
	left    int           // bytes of the current packet not yet handed on
	stall   time.Duration // longest time a write may take
	closed  atomic.Bool   // by the MQTT client
	writing sync.Mutex    // link.post writes beside the MQTT client
	renewed atomic.Int64  // when the write deadline was last set, Unix nanoseconds

	cause   atomic.Pointer[error] // why the connection is lost
	handing sync.Mutex            // held while the MQTT client is handed something
	over    bool                  // it is handed nothing any more; guarded by handing
}

func newStream(c net.Conn, stall time.Duration) *stream {
	return &stream{Conn: c, r: bufio.NewReader(c), stall: stall}
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

// Close is for the MQTT client.
func (s *stream) Close() error {
	s.closed.Store(true)
	return s.Conn.Close()
}

// nextPacket looks at the next fixed header without consuming it.
func (s *stream) nextPacket() error {
	const suback = 9
	length, shift := 0, 0
	for i := 1; ; i++ {
		b, err := s.r.Peek(i + 1)
		if err != nil {
			return s.loss(err)
		}
		length |= int(b[i]&0x7f) << shift
		shift += 7
		if b[i]&0x80 == 0 {
			s.left = i + 1 + length
			if b[0]>>4 == suback && length != 3 {
				return fmt.Errorf("%w: the broker answered a subscription to one topic with %d bytes", errStream, length)
			}
			break
		}
		if i == 4 {
			return fmt.Errorf("%w: the length of a packet has more than four bytes", errStream)
		}
	}
	if length > maxPacket {
		return fmt.Errorf("%w: a packet of %d bytes, the most is %d", errStream, length, maxPacket)
	}
	return nil
}

// Write is for the MQTT client, and never fails: Read tells it of the loss.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.write(p); err != nil {
		_ = s.fail(err)
	}
	return len(p), nil
}

// write fails when the peer takes nothing for the time of a stall. Setting a
// deadline costs more than a quarter of a small write, so it is renewed only
// once it has lost a quarter of its length.
func (s *stream) write(p []byte) error {
	now := time.Now()
	if last := s.renewed.Load(); now.UnixNano()-last > int64(s.stall/4) && s.renewed.CompareAndSwap(last, now.UnixNano()) {
		if err := s.Conn.SetWriteDeadline(now.Add(s.stall)); err != nil {
			return err
		}
	}
	s.writing.Lock()
	_, err := s.Conn.Write(p)
	s.writing.Unlock()
	return s.loss(err)
}

// SetWriteDeadline does nothing: the MQTT client would set and reset it around
// every publish, but not around acknowledgements and pings. Write does it.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is used by the MQTT client for the handshake.
func (s *stream) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }
