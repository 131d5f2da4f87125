package connection

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// slowBroker grants a subscription every pause of those that it has been asked for, and
// answers pings. It returns how many waited at most.
func slowBroker(c net.Conn, pause time.Duration) int {
	asked := make(chan uint16, 1<<16)
	var most atomic.Int64
	go func() {
		for id := range asked {
			most.Store(max(most.Load(), int64(len(asked)+1)))
			time.Sleep(pause)
			if _, err := c.Write(append(binary.BigEndian.AppendUint16([]byte{0x90, 3}, id), 1)); err != nil {
				return
			}
		}
	}()
	defer close(asked)
	for {
		var head [2]byte // no packet here is longer than 127 bytes
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return int(most.Load())
		}
		body := make([]byte, head[1])
		if _, err := io.ReadFull(c, body); err != nil {
			return int(most.Load())
		}
		switch head[0] & 0xf0 {
		case 0x10:
			_, _ = c.Write([]byte{0x20, 2, 0, 0})
		case 0x80:
			asked <- binary.BigEndian.Uint16(body)
		case 0xc0:
			_, _ = c.Write([]byte{0xd0, 0})
		}
	}
}

// Whoever has thousands of subscriptions asks for a few at a time when it comes back, and
// goes on as long as the broker grants them, however long all of them take.
func TestSubscriptionsArePaced(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	for pause, granted := range map[time.Duration]bool{ConnectTimeout / 100: true, 2 * ConnectTimeout: false} {
		bubble.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			waited := make(chan int, 1)
			go func() { waited <- slowBroker(server, pause) }()
			k, err := Connect(t.Context(), Config{
				ClientID: "a", KeepAlive: time.Minute,
				Open:    func(context.Context) (net.Conn, error) { return client, nil },
				Receive: func(string, []byte, bool) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			var filters []string
			for i := range 2000 {
				filters = append(filters, fmt.Sprint("t/", i))
			}
			begun := time.Now()
			err = SubscribeAll(t.Context(), k, filters, 1)
			if granted != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a grant every %v: %v after %v", pause, err, time.Since(begun))
			}
			k.Close(0)
			server.Close()
			synctest.Wait()
			if most := <-waited; most > subscribeAtOnce {
				t.Errorf("%d subscriptions waited for the broker", most)
			}
			time.Sleep(3 * ConnectTimeout)
		})
	}
}
