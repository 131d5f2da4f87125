//go:build linux

package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/qosmutex/jsonlock"
)

// fleet is many clients of one lock topic over one connection, which a broker without
// users allows. Each wants one resource once, and keeps it until it may go.
type fleet struct {
	t     *testing.T
	topic string
	conn  paho.Client
	begun time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu      sync.Mutex
	clients map[string]*ship
	last    map[string]*ship // who was let into a resource last
	may     bool             // leave when inside
	granted int              // of those that have been inside
	answers int
	busy    int // denied for now
	lies    []error
}

// ship is a client.
type ship struct {
	name, resource string
	priority       int
	try            int       // of its id
	next           time.Time // when it speaks again
	until          time.Time // until when it may believe that it is inside
	fence          uint64
	inside, done   bool
}

func (c *ship) id() string { return strconv.Itoa(c.try) }

// dial connects an MQTT client that has nothing of ours.
func dial(t *testing.T, url, id string) paho.Client {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID(id).SetAutoReconnect(false).SetOrderMatters(true).SetConnectTimeout(patience))
	if tok := c.Connect(); !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatalf("%s: %v", id, tok.Error())
	}
	return c
}

func launch(t *testing.T, url, topic string, n, resources int) *fleet {
	t.Helper()
	f := &fleet{t: t, topic: topic, begun: time.Now(), stop: make(chan struct{}), clients: map[string]*ship{}, last: map[string]*ship{}}
	f.conn = dial(t, url, "fleet-"+topic)
	tok := f.conn.Subscribe("padme/v1/default/lock/"+topic+"/client/+/answer", 0, func(_ paho.Client, m paho.Message) {
		f.heard(strings.Split(m.Topic(), "/")[6], m.Payload())
	})
	if !tok.WaitTimeout(patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	for i := range n {
		c := &ship{name: fmt.Sprintf("%s-%d", topic, i), resource: fmt.Sprintf("berth-%d", i%resources), priority: 100 - i%3, try: 1}
		f.clients[c.name] = c
	}
	f.ended.Go(f.speak)
	t.Cleanup(func() {
		close(f.stop)
		f.ended.Wait()
		f.conn.Disconnect(0)
	})
	return f
}

// speak sends what clients have to say.
func (f *fleet) speak() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now := time.Now()
		f.mu.Lock()
		for _, c := range f.clients {
			if c.done || now.Before(c.next) {
				continue
			}
			if c.inside && !now.Before(c.until) { // not renewed in time: it must stop, and may go on if it is told so
				c.inside = false
			}
			f.say(c, now)
		}
		f.mu.Unlock()
		select {
		case <-tick.C:
		case <-f.stop:
			return
		}
	}
}

// say sends an acquire or a renew.
func (f *fleet) say(c *ship, now time.Time) {
	op, again := jsonlock.Acquire, 3*time.Second
	if c.inside {
		op, again = jsonlock.Renew, time.Second
	}
	c.next = now.Add(again*3/4 + rand.N(again/2)) // as clients that began one after the other
	r := jsonlock.New(op)
	r.ID, r.Resource, r.Priority = c.id(), c.resource, int64(c.priority)
	r.Sent = json.Number(strconv.FormatInt(now.Sub(f.begun).Milliseconds(), 10))
	f.publish(c, &r)
}

func (f *fleet) publish(c *ship, r *jsonlock.Request) {
	payload, err := r.Encode()
	if err != nil {
		f.lies = append(f.lies, err)
		return
	}
	f.conn.Publish("padme/v1/default/lock/"+f.topic+"/client/"+c.name+"/request", 1, false, payload)
}

func (f *fleet) heard(name string, payload []byte) {
	now := time.Now()
	a, err := jsonlock.DecodeAnswer(payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers++
	c := f.clients[name]
	switch {
	case err != nil || c == nil:
		f.lies = append(f.lies, fmt.Errorf("%s: %s: %w", name, payload, err))
	case c.done || a.ID != c.id():
	case a.Outcome == jsonlock.Granted:
		f.enter(c, &a, now)
	case a.Outcome == jsonlock.Denied && (a.Reason == jsonlock.Overload || a.Reason == jsonlock.TooMany):
		f.busy++
		c.next = now.Add(time.Second)
	case a.Outcome == jsonlock.Lost, a.Outcome == jsonlock.Expired:
		c.inside, c.until, c.next = false, now, now
		c.try++
	case a.Final():
		f.lies = append(f.lies, fmt.Errorf("%s: %s", name, payload))
	}
}

// enter judges a grant by this computer's clock: nobody else believes that it is inside.
func (f *fleet) enter(c *ship, a *jsonlock.Answer, now time.Time) {
	fence, _ := a.FenceNumber()
	sent, _ := a.Sent.Int64()
	until := f.begun.Add(time.Duration(sent)*time.Millisecond + a.Valid())
	if !now.Before(until) {
		return // too late to be believed
	}
	if !c.inside {
		if was := f.last[c.resource]; was != nil && was != c && (now.Before(was.until) || fence <= was.fence) {
			f.lies = append(f.lies, fmt.Errorf("%s enters %s with fence %d, while %s, with %d, may believe that it is inside for %v", c.name, c.resource, fence, was.name, was.fence, was.until.Sub(now)))
		}
		f.last[c.resource] = c
	}
	c.inside, c.fence, c.until = true, fence, later(c.until, until)
	if f.may {
		f.leave(c, now)
	} else if next := now.Add(a.Valid() / 3); next.Before(c.next) {
		c.next = next
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f *fleet) leave(c *ship, now time.Time) {
	c.inside, c.done, c.until = false, true, now
	f.granted++
	r := jsonlock.New(jsonlock.Release)
	r.ID = c.id()
	f.publish(c, &r)
}

// letGo has everybody leave who is let in or may stay from now on.
func (f *fleet) letGo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.may = true
}

// count returns how many are inside, and have been.
func (f *fleet) count() (inside, done, busy int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		if c.inside {
			inside++
		}
	}
	return inside, f.granted, f.busy, errors.Join(f.lies...)
}

// resident is the resident memory of a process in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// median of some durations.
func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
