package broker

import (
	"bytes"
	"reflect"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

const (
	// flushTime is for how long a broker that ends goes on writing to a client that reads.
	flushTime = time.Second
	// flushStall is for how long such a client may take nothing.
	flushStall = 100 * time.Millisecond
)

// flush waits until a client has been sent what is queued for it. mochi drops the queue of a
// client that it stops, although it has acknowledged to the publishers what is in it.
func (c *conn) flush() {
	cl := c.client.Load()
	if cl == nil {
		return
	}
	started := time.Now()
	taken, progress := c.takenMessages.Load(), started
	for written := 0; written < 2 && !cl.Closed() && !c.gone.Load(); written++ { // twice: for a moment a packet is in neither place
		if queued(cl) > 0 || writing(cl) || !c.buffer.idle() {
			written = -1
		}
		now := time.Now()
		if n := c.takenMessages.Load(); n != taken {
			taken, progress = n, now
		}
		if now.Sub(progress) > flushStall || now.Sub(started) > flushTime {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// writing reports whether mochi is writing to a client, which it does under its lock.
func writing(cl *mqtt.Client) bool {
	if !cl.TryLock() {
		return true
	}
	cl.Unlock()
	return false
}

// queued returns how many packets wait in mochi's queue for a client, which mochi does not
// tell.
func queued(cl *mqtt.Client) int {
	if queue := reflect.ValueOf(&cl.State).Elem().FieldByName("outbound"); queue.IsValid() {
		return queue.Len()
	}
	return 0
}

// flushBuffer writes out what mochi has encoded and keeps until the next packet that it
// writes, which is not to come yet. It does not tell of that buffer.
func flushBuffer(cl *mqtt.Client) {
	cl.Lock()
	defer cl.Unlock()
	field := reflect.ValueOf(&cl.Net).Elem().FieldByName("outbuf")
	if !field.IsValid() || field.IsNil() {
		return
	}
	kept, ok := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Interface().(**bytes.Buffer)
	if ok {
		_, _ = (*kept).WriteTo(cl.Net.Conn) // which closes if that fails
	}
}
