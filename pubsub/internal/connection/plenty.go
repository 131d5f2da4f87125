package connection

import (
	"context"
	"strings"
	"sync"
)

// A broker keeps room for the messages at QoS 1 that a client has not acknowledged yet, and
// drops what does not fit: of 5,000 retained messages mosquitto sends 1,020, unless it is
// configured otherwise, and tells nobody but its log. At QoS 0 it sends them all, as long as the
// client reads. So a link that gets that many at QoS 1 asks for them at QoS 0, too, and then
// goes on at QoS 1.

// plenty is how many retained messages at QoS 1 may be all that the broker had room for.
const plenty = 1000

// wildcards are the filters of a link for which a broker may have more than it has room for.
type wildcards struct {
	retained int // messages at QoS 1 so far; of who reads
	again    sync.WaitGroup

	mu   sync.Mutex
	all  map[string]bool
	many bool // there are plenty
	over bool // nothing is asked for any more
}

// asked notes that a filter is asked for at QoS 1, and reports whether it is to be asked for at
// QoS 0 first.
func (w *wildcards) asked(filter string) (many bool) {
	if !strings.ContainsAny(filter, "+#") {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]bool{}
	}
	w.all[filter] = true
	return w.many
}

func (w *wildcards) forget(filter string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, filter)
}

// end returns when nobody asks any more.
func (w *wildcards) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.again.Wait()
}

// cameRetained counts a message. Who reads must not wait for the broker, so somebody else asks.
func (l *Link) cameRetained() {
	w := &l.wildcards
	if w.retained++; w.retained != plenty {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.many = true; w.over {
		return
	}
	var filters []string
	for f := range w.all {
		filters = append(filters, f)
	}
	w.again.Go(func() {
		for _, f := range filters {
			for range 10 {
				r, there := l.askAgain(f)
				if !there || !packetIDInUse(r.waitFor(context.Background(), ConnectTimeout)) {
					break
				}
			}
		}
	})
}

// askAgain subscribes again to a filter that is still wanted.
func (l *Link) askAgain(filter string) (r receipt, there bool) {
	l.wildcards.mu.Lock()
	defer l.wildcards.mu.Unlock()
	if !l.wildcards.all[filter] {
		return r, false
	}
	l.request(filter, 0)
	return l.request(filter, 1), true
}
