//go:build linux

package faults

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/proxy"
)

const (
	// bound is the time in which everybody is served again, on each resource, once
	// a fault is over, and in which all but the victim are served while it lasts. The
	// next root is there after half a TTL and grants after a grace of 1 s; the back-off
	// of a connection reaches 5 s, and an MQTT client that hears nothing notices after
	// 10 to 13 s.
	bound = 20 * time.Second
	// polling is how often a process's history is looked at.
	polling = 2 * time.Millisecond
)

// ttl is that of the workers.
var ttl = qosmutex.Local().TTL

// cluster is a broker, a root and members, each a process of its own.
type cluster struct {
	t        *testing.T
	dir      string
	models   string
	lan      bool
	reckless bool
	idleRoot bool

	kind    brokerKind
	broker  *process
	address string // of the broker
	network *network
	members []*member // the root first
	blocker *member   // stays inside what a victim waits for
}

// member is a participant, over all its lives.
type member struct {
	job
	*process
	reader
	proxy *proxy.Proxy // its way to the broker, unless it is in a network of its own
	lives [][]event
}

// participant is a name and a priority, by which the tree is ordered.
type participant struct {
	id       string
	priority int64
}

// voters keep who is the root. The first of them creates the topic.
var voters = []string{"root", "a", "b"}

// five: the root has two children, and these have the others.
var five = []participant{{"root", 0}, {"a", 10}, {"b", 20}, {"c", 30}, {"d", 40}}

// newCluster starts everything and returns when everybody has been served.
func newCluster(t *testing.T, c *cluster, who []participant) *cluster {
	t.Helper()
	c.t, c.dir = t, t.TempDir()
	if c.network == nil {
		c.address = address.Free(t)
	} else {
		c.address = c.network.address(0) + ":1883"
	}
	c.startBroker()
	for i, p := range who {
		m := &member{job: job{
			Broker: "mqtt://" + c.address, ID: p.id, Dir: c.dir, Create: i == 0, Voters: voters, Priority: p.priority,
			Models: c.models, LAN: c.lan, Reckless: c.reckless, Idle: i == 0 && c.idleRoot,
		}}
		if c.kind.root {
			m.Create, m.Voters = false, nil
		}
		if c.network == nil {
			m.proxy = proxy.Start(t, c.address)
			m.Broker = m.proxy.URL()
		}
		c.members = append(c.members, m)
		c.start(m)
	}
	if _, err := c.awaitServed(now(), c.members...); err != nil {
		c.fatal("at the start: %v", err)
	}
	return c
}

// start begins a new life of a member.
func (c *cluster) start(m *member) {
	c.t.Helper()
	m.History = filepath.Join(c.dir, fmt.Sprintf("%s.%d", m.ID, len(m.lives)))
	m.reader = reader{path: m.History}
	namespace := ""
	if c.network != nil {
		namespace = c.network.namespace(1 + c.index(m))
	}
	m.process = startSelf(c.t, namespace, workerEnv, m.job)
}

func (c *cluster) index(m *member) int {
	for i := range c.members {
		if c.members[i] == m {
			return i
		}
	}
	return len(c.members) // about to be added
}

// kill ends a member's life and keeps its history.
func (c *cluster) kill(m *member) {
	c.t.Helper()
	m.process.kill()
	c.read(m)
	m.lives = append(m.lives, m.events)
}

func (c *cluster) read(m *member) {
	c.t.Helper()
	if err := m.read(); err != nil {
		c.t.Fatal(err)
	}
}

// await polls until cond, which fails the test if that takes too long.
func (c *cluster) await(what string, patience time.Duration, cond func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(polling) {
		if time.Now().After(end) {
			c.fatal("waited %v in vain until %s", patience, what)
		}
	}
}

// awaitServed returns how long after since it took until each of the members had
// entered each resource, with an error when the bound has passed.
func (c *cluster) awaitServed(since instant, members ...*member) (longest time.Duration, err error) {
	c.t.Helper()
	for _, m := range members {
		for _, r := range resources {
			for !m.Idle {
				c.read(m)
				if e, ok := m.first(got, r, since); ok {
					longest = max(longest, e.at.sub(since))
					break
				}
				if now().sub(since) > bound {
					return 0, fmt.Errorf("%s was not served with %s within %v", m.ID, r, bound)
				}
				time.Sleep(polling)
			}
		}
	}
	return longest, nil
}

// fatal ends the test with what the processes said and did last.
func (c *cluster) fatal(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf(format, args...)
	for _, m := range c.members {
		_, _ = io.WriteString(m.orders, "show\n") // to whom is not stopped or gone
	}
	time.Sleep(500 * time.Millisecond)
	for _, m := range c.members {
		c.read(m)
		tail := m.events[max(0, len(m.events)-6):]
		m.process.kill()
		c.t.Logf("%s (life %d): %v\n%s", m.ID, len(m.lives), tail, last(m.stderr.String(), 2000))
	}
	c.broker.kill()
	c.t.Fatalf("broker: %s", last(c.broker.stderr.String(), 800))
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }
