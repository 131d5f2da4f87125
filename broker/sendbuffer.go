package broker

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// sendBuffer writes to a connection without ever waiting for its other end: what is not taken
// at once waits here, and a goroutine writes it. mochi writes a client's packets under a lock
// that each publisher at QoS 1 to it needs, too. So a write must not block there; who has more
// to send waits before it takes that lock, see await.
type sendBuffer struct {
	conn net.Conn
	try  func([]byte) int // writes what is taken at once, and returns how much it was

	mu      sync.Mutex
	ready   func()      // called before a write that may block
	fail    func(error) // called when one has failed, or too much waits
	most    int         // bytes that may wait
	changed sync.Cond   // to idle, or ended
	waiting []byte
	writes  int               // of which that is
	writing int               // bytes that a goroutine writes
	charge  func(delta int64) // what waits and is written, to its user; nil: nothing is charged
	busy    bool              // there is a goroutine that writes
	err     error             // why nothing can be written any more
	writer  sync.WaitGroup
}

// errUnread ends a connection whose peer does not read.
var errUnread = fmt.Errorf("broker: too much waits to be read: %w", os.ErrDeadlineExceeded)

func newSendBuffer(c net.Conn) *sendBuffer {
	b := &sendBuffer{
		conn: c, most: strangerReads,
		ready: func() {},
		fail:  func(error) { _ = c.Close() },
	}
	b.changed.L = &b.mu
	switch c := c.(type) {
	case *pipeConn:
		b.try = c.out.try
	case syscall.Conn:
		b.try = socketTry(c)
	default:
		b.try = func([]byte) int { return 0 }
	}
	return b
}

// strangerReads is how many bytes somebody who is not known yet may leave unread, of TLS and HTTP. No
// answer to a stranger has as many.
const strangerReads = 64 << 10

// socketTry returns a function that writes what a socket takes at once. One goroutine at a
// time may call it.
func socketTry(c syscall.Conn) func([]byte) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return func([]byte) int { return 0 }
	}
	var p []byte
	var took int
	attempt := func(fd uintptr) bool { // made once, or each call would allocate
		took = tryWrite(fd, p)
		return true
	}
	return func(b []byte) int {
		p, took = b, 0
		_ = raw.Write(attempt)
		p = nil
		return took
	}
}

// write does not block, and does not keep p.
func (b *sendBuffer) write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	rest := p
	if !b.busy {
		rest = p[b.try(p):]
	}
	if len(rest) == 0 {
		return len(p), nil
	}
	if len(b.waiting)+len(rest) > b.most { // who sends waits first, but not what TLS and WebSocket answer by themselves
		b.err = errUnread
		b.changed.Broadcast()
		fail := b.fail
		b.writer.Go(func() { fail(errUnread) })
		return 0, errUnread
	}
	b.waiting = append(b.waiting, rest...)
	b.writes++
	if b.charge != nil {
		b.charge(int64(len(rest)))
	}
	if !b.busy {
		b.busy = true
		b.writer.Go(b.drain)
	}
	return len(p), nil
}

// drain writes what waits.
func (b *sendBuffer) drain() {
	for {
		b.mu.Lock()
		if b.charge != nil {
			b.charge(-int64(b.writing))
		}
		p := b.waiting
		b.waiting, b.writes, b.writing = nil, 0, len(b.waiting)
		if len(p) == 0 || b.err != nil {
			b.busy, b.writing = false, 0
			b.changed.Broadcast()
			b.mu.Unlock()
			return
		}
		ready, fail := b.ready, b.fail
		b.mu.Unlock()
		ready()
		if _, err := b.conn.Write(p); err != nil {
			b.end(err)
			fail(err)
		}
	}
}

// serves has the buffer call functions of a connection above it.
func (b *sendBuffer) serves(ready func(), fail func(error), most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready, b.fail, b.most = ready, fail, most
}

// charges has what waits from now on charged to a user. What is left at the end of the connection is
// given back there.
func (b *sendBuffer) charges(charge func(delta int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge = charge
}

// await waits until nothing waits to be written, or nothing can be.
func (b *sendBuffer) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy && b.err == nil {
		b.changed.Wait()
	}
}

// holds reports how much waits: of how many writes, and how many bytes, without what is being
// written, which may be one long packet.
func (b *sendBuffer) holds() (writes, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes, len(b.waiting)
}

// idle reports whether nothing waits to be written, or nothing can be.
func (b *sendBuffer) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy || b.err != nil
}

// settle waits for a moment until that is so: Close drops what waits.
func (b *sendBuffer) settle() {
	for end := time.Now().Add(flushStall); !b.idle() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// end lets nothing be written any more; the first reason counts.
func (b *sendBuffer) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = why
	}
	b.changed.Broadcast()
}
