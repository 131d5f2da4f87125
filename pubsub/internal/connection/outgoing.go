package connection

import (
	"net"
	"sync"
	"time"
)

// maxPending bounds what waits to be written until the next one who may wait does, in
// bytes.
const maxPending = 64 << 10

// outgoing writes to a connection without holding up who must not wait. A broker that
// cannot write to us does not read from us. If the MQTT client waited for it, with an
// acknowledgement say, it would not read either, and each would wait for the other. So what
// the client writes is taken at once, as much as it is: its acknowledgements are small,
// and a flight bounds its publishes.
type outgoing struct {
	conn   net.Conn
	stall  time.Duration // longest time that the network may take nothing
	failed func(error)   // called when what was put cannot be written

	mu      sync.Mutex
	changed sync.Cond
	pending []byte    // taken, and written by whoever is busy
	spare   []byte    // to be pending next
	busy    bool      // somebody writes
	over    bool      // what was put last is the last
	err     error     // why nothing is written any more
	renewed time.Time // when the deadline was last set; of who is busy
}

func (o *outgoing) init(c net.Conn, stall time.Duration, failed func(error)) {
	o.conn, o.stall, o.failed = c, stall, failed
	o.changed.L = &o.mu
}

// put takes p, which goes out after everything before it. It does not block.
func (o *outgoing) put(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(p)
}

// finish is put for the last time: after a DISCONNECT nothing may follow (MQTT 3.1.1 §3.14.4).
func (o *outgoing) finish(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(p)
	o.over = true
}

func (o *outgoing) add(p []byte) {
	if o.err != nil || o.over {
		return
	}
	o.pending = append(o.pending, p...)
	if !o.busy {
		o.busy = true
		go o.flush()
	}
}

// write writes head and rest itself if nobody else is about to. It blocks while the network
// takes nothing, at most for a stall.
func (o *outgoing) write(head, rest []byte) error {
	o.mu.Lock()
	for o.err == nil && o.busy && len(o.pending) >= maxPending {
		o.changed.Wait()
	}
	if o.err != nil || o.busy || o.over {
		defer o.mu.Unlock()
		if o.err == nil && !o.over {
			o.pending = append(append(o.pending, head...), rest...)
		}
		return o.err
	}
	o.busy = true
	o.mu.Unlock()
	err := o.send(head, rest)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err = err; err == nil && len(o.pending) > 0 {
		go o.flush()
		return nil
	}
	o.busy = false
	o.changed.Broadcast()
	return err
}

// flush writes what waits until nothing does.
func (o *outgoing) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && len(o.pending) > 0 {
		b := o.pending
		o.pending, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		err := o.send(b, nil)
		if err != nil {
			o.failed(err)
		}
		o.mu.Lock()
		if o.err = err; cap(b) <= maxPending {
			o.spare = b
		}
		o.changed.Broadcast()
	}
	o.busy = false
	o.changed.Broadcast()
}

// send fails when the peer takes nothing for the time of a stall. Setting a deadline costs
// more than a quarter of a small write, so it is renewed only once it has lost a quarter of
// its length.
func (o *outgoing) send(head, rest []byte) error {
	if now := time.Now(); now.Sub(o.renewed) > o.stall/4 {
		if err := o.conn.SetWriteDeadline(now.Add(o.stall)); err != nil {
			return err
		}
		o.renewed = now
	}
	if len(rest) == 0 {
		_, err := o.conn.Write(head)
		return err
	}
	both := net.Buffers{head, rest}
	_, err := both.WriteTo(o.conn)
	return err
}

// drain waits until everything is written. It closes the connection if that takes too long.
func (o *outgoing) drain(long time.Duration) {
	enough := time.AfterFunc(long, func() { _ = o.conn.Close() })
	defer enough.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy {
		o.changed.Wait()
	}
}
