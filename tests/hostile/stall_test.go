//go:build linux

package hostile

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/tests/extent"
	"padme/tests/poll"
)

// stalled is for how long a client holds up whoever writes for watchers.
var stalled = extent.Of(8*time.Second, 30*time.Second)

// A client reads what is published for watchers of the locks, one connection after the
// other, and acknowledges nothing of it. Whoever publishes that waits, again and again; locks
// do not, nor do devices that speak JSON.
func TestWatchersThatAcknowledgeNothing(t *testing.T) {
	extent.Long(t, "queues that fill up")
	n := startNode(t, "--max-user-queue", "8000000") // soon reached, also where little is published
	h := startHonest(t, n)
	d := startDevice(t, n)
	h.goOn(t)
	d.goOn(t)
	h.during(t, func() {
		var most time.Duration
		var working sync.WaitGroup
		stop := make(chan struct{})
		defer working.Wait()
		defer close(stop)
		for range 12 {
			working.Go(func() {
				for n.watchAsEve(stop) {
					pause(stop, 100*time.Millisecond)
				}
			})
			pause(stop, 500*time.Millisecond) // so that not all are cut off together
		}
		last, at := d.entries.Load(), time.Now()
		for begin := at; time.Since(begin) < stalled; time.Sleep(time.Millisecond) {
			if e := d.entries.Load(); e != last {
				last, at = e, time.Now()
			}
			most = max(most, time.Since(at))
		}
		poll.Within(t, patience, "somebody to be held up", func() bool { // on a slow machine later
			pause(stop, 100*time.Millisecond)
			return n.sum(t, limited, `"write-timeout"`) > 0
		})
		t.Logf("the device waited %v at most", most.Round(time.Millisecond))
	})
	d.goOn(t)
}

var watchers atomic.Int64

// pause waits, unless it is told to stop.
func pause(stop <-chan struct{}, d time.Duration) {
	select {
	case <-stop:
	case <-time.After(d):
	}
}

// watchAsEve acknowledges nothing until it is cut off or told to stop, and reports whether to
// go on.
func (n *node) watchAsEve(stop <-chan struct{}) (goOn bool) {
	c, err := enterAs(n.addr, "eve", fmt.Sprint("watcher-", watchers.Add(1)))
	if err == nil {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, c)
		}()
		for _, name := range []string{"lock/crane/events", "lock/crane/hook/state", "lock/gate/events", "lock/gate/bar/state"} {
			_, _ = c.Write(packet(0x82, []byte{0, 1}, str(r+name), []byte{1}))
		}
		select {
		case <-gone:
		case <-stop:
		}
		_ = c.Close()
		<-gone
	}
	select {
	case <-stop:
		return false
	default:
		return true
	}
}
