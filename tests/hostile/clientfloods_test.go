//go:build linux

package hostile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
)

// crowd is how many accounts of clients flood together, each on as many connections.
const (
	crowd            = 16
	crowdConnections = 10
)

// clientFloods are what each connection of a client sends as fast as it can: its nth message, to a
// lock topic.
var clientFloods = map[string]func(user string, connection, n int) (topic, request string){
	"requests for ten locks of their own": func(user string, connection, n int) (string, string) {
		return fmt.Sprintf("own-%s-%d", user, connection), fmt.Sprintf(`{"op":"acquire","id":"%d-%d","resource":"r%d","priority":%d}`, connection, n, n%200, n%7)
	},
	"ten requests again and again": func(user string, connection, n int) (string, string) {
		return "own-" + user, fmt.Sprintf(`{"op":"acquire","id":"%d-%d"}`, connection, n%10)
	},
	"requests for one lock":            askForOne,
	"requests that they read at QoS 1": askForOne,
}

func askForOne(_ string, connection, n int) (topic, request string) {
	return "hot", fmt.Sprintf(`{"op":"acquire","id":"%d-%d","priority":%d}`, connection, n, n%7)
}

func init() {
	for name, says := range clientFloods {
		what, qos := "answer", byte(0)
		if strings.Contains(name, "read") {
			what, qos = "#", 1
		}
		attackers[name] = func(addr, _ string) error { return floodAsClients(addr, what, qos, says) }
	}
}

func crowdUser(i int) string { return fmt.Sprint("crowd", i) }

// floodAsClients subscribes each connection to what of its user's topics, and floods on it.
func floodAsClients(addr, what string, qos byte, says func(user string, connection, n int) (string, string)) error {
	var begin []func()
	for i := range crowd {
		for k := range crowdConnections {
			user := crowdUser(i)
			c, err := enterAs(addr, user, fmt.Sprint("flood-", k))
			if err != nil {
				return err
			}
			if _, err := c.Write(packet(0x82, []byte{0, 1}, str(r+"lock/+/client/"+user+"/"+what), []byte{qos})); err != nil {
				return err
			}
			begin = append(begin, func() {
				go func() { _, _ = io.Copy(io.Discard, c) }()
				sayForEver(c, user, func(n int) (string, string) { return says(user, k, n) })
			})
		}
	}
	for _, f := range begin {
		go f()
	}
	return nil
}

// sayForEver publishes requests of a client, sixteen with each write.
func sayForEver(c net.Conn, user string, says func(n int) (topic, request string)) {
	for n := 0; ; {
		var all []byte
		for range 16 {
			topic, request := says(n)
			all = append(all, packet(0x30, str(r+"lock/"+topic+"/client/"+user+"/request"), []byte(request))...)
			n++
		}
		if _, err := c.Write(all); err != nil {
			return // it was ended
		}
	}
}

// Hundreds of connections of many clients that flood the gateway wait for themselves: members,
// other clients and those who join lock on.
func TestFloodsOfManyClients(t *testing.T) {
	extent.Long(t, "four floods by 160 connections")
	more := map[string]broker.Role{}
	for i := range crowd {
		more[crowdUser(i)] = broker.Client
	}
	n := startNodeFor(t, more)
	h, d := startHonest(t, n), startDevice(t, n)
	h.goOn(t)
	d.goOn(t)
	for _, name := range slices.Sorted(maps.Keys(clientFloods)) {
		t.Run(name, func(t *testing.T) {
			d.longest()
			var joins []time.Duration
			h.during(t, func() {
				stop, done := make(chan struct{}), sync.WaitGroup{}
				done.Go(func() { joins = n.joinAgain(t, stop) })
				n.attack(t, name)
				close(stop)
				done.Wait()
			})
			d.goOn(t)
			t.Logf("the device waited for %v at most; %d joins, with a lock, took %v at most", d.longest().Round(time.Millisecond), len(joins), slices.Max(joins).Round(time.Millisecond))
		})
	}
}

// joinAgain joins as a member, locks and leaves, again and again, and returns how long each took up
// to the lock.
func (n *node) joinAgain(t *testing.T, stop <-chan struct{}) (took []time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		began := time.Now()
		p, err := pubsub.Join(ctx, n.url(), "mallory", n.credentials("mallory")...)
		if err != nil {
			t.Error(err)
			return took
		}
		topic, err := qosmutex.Open(ctx, p, "crane")
		if err == nil {
			var hold *qosmutex.Hold
			if hold, err = topic.Lock(ctx, "bar"); err == nil {
				took = append(took, time.Since(began))
				err = hold.Unlock()
			}
			_ = topic.Close(ctx)
		}
		if closing := p.Close(ctx); err != nil || closing != nil {
			t.Error(err, closing)
			return took
		}
		select {
		case <-stop:
			return took
		case <-time.After(100 * time.Millisecond):
		}
	}
}
