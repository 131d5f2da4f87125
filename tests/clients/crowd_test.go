//go:build linux

package clients

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
	"padme/tests/extent"
)

// TestCrowd: 500 clients come at the same moment, each with a connection of its own, for a
// lock that somebody holds. Nobody is dropped or denied, and they are served by priority,
// and in the order in which the gateway has told them that they stand.
func TestCrowd(t *testing.T) {
	extent.Long(t, "a crowd")
	extent.NotShort(t, "real processes")
	const crowd = 500
	s := loneSite(t, "--memory")
	holder := newRaw(t, s.url, "crane", "holder")
	if a := holder.ask("acquire", "h", `,"lease_ms":600000`); a.Outcome != jsonlock.Granted {
		t.Fatalf("%+v", a)
	}
	stop := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
				holder.ask("renew", "h", "")
			}
		}
	})
	clients := make([]*raw, crowd)
	var connecting sync.WaitGroup
	for i := range clients {
		connecting.Go(func() { clients[i] = newRaw(t, s.url, "crane", fmt.Sprint("c", i)) })
	}
	connecting.Wait()
	var mu sync.Mutex
	var order, lies []string
	var all, standing sync.WaitGroup
	place := make([]int, crowd)
	begin, look := make(chan struct{}), make(chan struct{})
	standing.Add(crowd)
	for i, c := range clients {
		all.Go(func() {
			priority := fmt.Sprintf(`,"priority":%d,"lease_ms":600000,"wait_ms":600000`, 100-i%2)
			<-begin
			if a := c.first("acquire", priority); a.Outcome != jsonlock.Waiting {
				mu.Lock()
				lies = append(lies, fmt.Sprintf("%d: %+v", i, a))
				mu.Unlock()
			}
			standing.Done()
			<-look
			place[i] = c.first("query", "").Position
			standing.Done()
			a := c.granted()
			mu.Lock()
			order = append(order, fmt.Sprint("c", i))
			if a.Outcome != jsonlock.Granted {
				lies = append(lies, fmt.Sprintf("%d: %+v", i, a))
			}
			mu.Unlock()
			if a := c.ask("release", "1", ""); a.Outcome != jsonlock.Released {
				mu.Lock()
				lies = append(lies, fmt.Sprintf("%d: %+v", i, a))
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	close(begin)
	standing.Wait()
	t.Logf("%d clients wait after %v", crowd, time.Since(began).Round(time.Millisecond))
	standing.Add(crowd)
	close(look)
	standing.Wait()
	close(stop)
	renewing.Wait()
	freed := time.Now()
	if a := holder.ask("release", "h", ""); a.Outcome != jsonlock.Released {
		t.Errorf("%+v", a)
	}
	all.Wait()
	t.Logf("and were all served %v after it was free", time.Since(freed).Round(time.Millisecond))
	for _, l := range lies {
		t.Error(l)
	}
	want := make([]string, crowd)
	for i, p := range place {
		if p < 1 || p > crowd || want[p-1] != "" {
			t.Fatalf("client %d stands at %d, where somebody else may stand", i, p)
		}
		if want[p-1] = fmt.Sprint("c", i); (p <= crowd/2) != (i%2 == 1) {
			t.Errorf("client %d with priority %d stands at %d", i, 100-i%2, p)
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("served %s\nwant   %s", strings.Join(order, " "), strings.Join(want, " "))
	}
}

// first sends a request of id 1 until it is answered, and returns that answer.
func (c *raw) first(op, more string) jsonlock.Answer {
	for range int(patience / time.Second) {
		c.conn.Publish(c.base+"/request", 1, false, fmt.Sprintf(`{"op":%q,"id":"1","sent":%d%s}`, op, time.Now().UnixMilli(), more))
		select {
		case a := <-c.answers:
			if string(a.Op) == op || a.Op == "" {
				return a
			}
		case <-time.After(time.Second):
		}
	}
	return jsonlock.Answer{Outcome: "never answered"}
}

// granted waits until id 1 does not wait any more.
func (c *raw) granted() jsonlock.Answer {
	for {
		select {
		case a := <-c.answers:
			if a.Outcome != jsonlock.Waiting {
				return a
			}
		case <-time.After(patience):
			return jsonlock.Answer{Outcome: "never granted"}
		}
	}
}
