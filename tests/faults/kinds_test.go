//go:build linux

package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"padme/tests/proxy"
)

// accesses is longer than several accesses to what a guard protects.
const accesses = 200 * time.Millisecond

// outlasting is how long a fault lasts that ends sessions.
const outlasting = 1500 * time.Millisecond

// fault is one kind of injection.
type fault struct {
	name    string
	broker  brokerKind
	network bool // each process in a network namespace of its own
	// overwrites: a holder goes on after others have been inside, so without a
	// guard updates are lost.
	overwrites bool
	inject     func(c *cluster) injection
}

// injection is what an injected fault did.
type injection struct {
	over   instant       // everything works again, as far as we see to it
	others time.Duration // until everybody else was served while it lasted; 0: not awaited
}

func faults() []fault {
	durable := brokerKind{durable: true}
	return []fault{
		{name: "kill-waiter", inject: func(c *cluster) injection { return c.killed(c.waiter()) }},
		{name: "kill-holder", inject: func(c *cluster) injection { return c.killed(c.holder()) }},
		{name: "kill-inner", inject: func(c *cluster) injection { return c.killed(c.inner()) }},
		{name: "kill-root", inject: killRoot},
		{name: "kill-root-for-good", inject: func(c *cluster) injection { return c.killed(c.root()) }},
		{name: "kill-voters", inject: killVoters},
		{name: "broker-and-root", broker: brokerKind{root: true}, inject: killBrokerAndRoot},
		{name: "stop-holder", overwrites: true, inject: func(c *cluster) injection { return c.stopped(c.holder()) }},
		{name: "stop-waiter", inject: func(c *cluster) injection { return c.stopped(c.waiter()) }},
		{name: "stop-root", inject: func(c *cluster) injection { return c.stopped(c.root()) }},
		{name: "broker-with-data", broker: durable, inject: killBroker},
		{name: "broker-without-data", inject: killBroker},
		{name: "broker-mosquitto", broker: brokerKind{mosquitto: true}, inject: killBroker},
		{name: "hang-holder", overwrites: true, inject: func(c *cluster) injection { return c.hung(c.holder(), proxy.ToServer, proxy.FromServer) }},
		{name: "hang-anyone", inject: func(c *cluster) injection { return c.hung(c.anyone(), proxy.ToServer, proxy.FromServer) }},
		{name: "hang-to-broker", inject: func(c *cluster) injection { return c.hung(c.anyone(), proxy.ToServer) }},
		{name: "hang-from-broker", inject: func(c *cluster) injection { return c.hung(c.waiter(), proxy.FromServer) }},
		{name: "reset", inject: reset},
		{name: "delay", inject: delay},
		{name: "partition-holder", network: true, overwrites: true, inject: func(c *cluster) injection { return c.parted(c.holder()) }},
		{name: "partition-anyone", network: true, inject: func(c *cluster) injection { return c.parted(c.anyone()) }},
		{name: "packet-loss", network: true, inject: loss},
	}
}

// Victims.

// root returns who is the root. Of several that take themselves for it, as one does that
// was stopped, the latest is meant.
func (c *cluster) root() (m *member) {
	c.t.Helper()
	c.await("there is a root", bound, func() bool {
		var latest event
		for _, n := range c.members {
			c.read(n)
			if e := n.last(rooted, unrooted); e.what == rooted && e.at > latest.at {
				m, latest = n, e
			}
		}
		return m != nil
	})
	return m
}

func (c *cluster) anyone() *member {
	c.t.Helper()
	c.root()
	return c.anyOf(c.members)
}

func (c *cluster) anyOf(members []*member) *member { return members[rand.IntN(len(members))] }

// someone is anyone who locks, but the root, and but these. If nobody is left, the root is
// soon somebody else: the most important one is.
func (c *cluster) someone(but ...*member) (m *member) {
	c.t.Helper()
	c.await("somebody locks who is not the root", bound, func() bool {
		root := c.root()
		var others []*member
		for _, o := range c.members {
			if !o.Idle && o != root && !slices.Contains(but, o) {
				others = append(others, o)
			}
		}
		if len(others) == 0 {
			return false
		}
		m = c.anyOf(others)
		return true
	})
	return m
}

// holder has someone stay inside.
func (c *cluster) holder() *member {
	c.t.Helper()
	m := c.someone()
	c.stay(m)
	return m
}

func (c *cluster) stay(m *member) {
	c.t.Helper()
	since := now()
	m.order(c.t, "stay")
	c.await(m.ID+" stays inside", bound, func() bool {
		c.read(m)
		return m.last(stays).at > since
	})
}

// waiter returns someone who waits for what another one holds; that one goes on
// once the fault has begun.
func (c *cluster) waiter() *member {
	c.t.Helper()
	inside := c.holder()
	m := c.someone(inside)
	resource := inside.last(stays).resource
	c.await(m.ID+" waits", bound, func() bool {
		c.read(m)
		e := m.last(called, got)
		return e.what == called && e.resource == resource
	})
	c.blocker = inside
	return m
}

// unblock lets the one go on whom the victim waits for.
func (c *cluster) unblock() {
	c.t.Helper()
	if c.blocker != nil {
		c.blocker.order(c.t, "go")
	}
	c.blocker = nil
}

// inner returns someone who has children in the tree.
func (c *cluster) inner() (m *member) {
	c.t.Helper()
	c.await("someone has children", bound, func() bool {
		m = c.someone()
		c.read(m)
		return m.last(parent).fence > 0
	})
	return m
}

// Faults.

// outage has a member out of action from begin to end, until all others have been
// served in between.
func (c *cluster) outage(m *member, begin, end func()) injection {
	c.t.Helper()
	began := now()
	begin()
	c.unblock()
	others := c.othersServed(began, m)
	time.Sleep(outlasting - min(outlasting, now().sub(began)))
	if m.last(stays, wrote).what == stays {
		m.order(c.t, "go")
	}
	end()
	return injection{over: now(), others: others}
}

// othersServed returns how long it took.
func (c *cluster) othersServed(since instant, but *member) time.Duration {
	c.t.Helper()
	var others []*member
	for _, m := range c.members {
		if m != but {
			others = append(others, m)
		}
	}
	took, err := c.awaitServed(since, others...)
	if err != nil {
		c.fatal("while %s is out of action: %v", but.ID, err)
	}
	return took
}

// killed kills a member, lets the others go on without it and starts it again.
func (c *cluster) killed(m *member) injection {
	c.t.Helper()
	began := now()
	c.kill(m)
	c.unblock()
	others := c.othersServed(began, m)
	c.start(m)
	return injection{over: now(), others: others}
}

// killRoot starts the root again at once: it comes back while its lease runs out.
func killRoot(c *cluster) injection {
	m := c.root()
	c.kill(m)
	c.start(m)
	return injection{over: now()}
}

// killVoters starts all voters again at once: the register was gone.
func killVoters(c *cluster) injection {
	c.t.Helper()
	c.root()
	for _, m := range c.members[:len(voters)] {
		c.kill(m)
	}
	for _, m := range c.members[:len(voters)] {
		c.start(m)
	}
	return injection{over: now()}
}

// killBrokerAndRoot starts the process of the broker and the root again at once. Who
// holds a resource goes on: the root that it hears of then lets it hold for longer than
// the session that it had.
func killBrokerAndRoot(c *cluster) injection {
	c.t.Helper()
	m, timing := c.anyOf(c.members), timing(c.lan)
	c.stay(m)
	time.Sleep(timing.Heartbeat * 3 / 2) // by then the hold is confirmed
	c.broker.kill()
	c.startBroker()
	time.Sleep(timing.TTL * 4 / 3)
	m.order(c.t, "go")
	c.await(m.ID+" goes on", bound, func() bool {
		c.read(m)
		return m.last(stays, wrote, ended, lost).what == ended
	})
	return injection{over: now()}
}

func (c *cluster) stopped(m *member) injection {
	c.t.Helper()
	return c.outage(m,
		func() { c.stop(m) },
		func() { m.signal(c.t, syscall.SIGCONT) })
}

// stop stops a member, but not in the middle of an access to what a guard protects:
// it would lock the others out, who wait for the guard's file and not for the lock.
func (c *cluster) stop(m *member) {
	c.t.Helper()
	c.await(m.ID+" is stopped outside the guard", bound, func() bool {
		m.signal(c.t, syscall.SIGSTOP)
		if c.accessible() {
			return true
		}
		m.signal(c.t, syscall.SIGCONT)
		return false
	})
}

// accessible reports whether each guard's file is free at some instant of the next
// accesses' time.
func (c *cluster) accessible() bool {
	c.t.Helper()
	for _, r := range resources {
		f, err := os.OpenFile(filepath.Join(c.dir, r+".fence.lock"), os.O_RDWR, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		free := false
		for end := time.Now().Add(accesses); !free && time.Now().Before(end); time.Sleep(polling) {
			free = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
		}
		_ = f.Close() // which frees it
		if !free {
			return false
		}
	}
	return true
}

func killBroker(c *cluster) injection {
	c.broker.kill()
	time.Sleep(rand.N(2 * ttl)) // some are back before any session expires
	c.startBroker()
	return injection{over: now()}
}

func (c *cluster) hung(m *member, directions ...proxy.Direction) injection {
	c.t.Helper()
	return c.outage(m, func() { m.proxy.Hold(directions...) }, m.proxy.Release)
}

func reset(c *cluster) injection {
	c.anyone().proxy.ResetAll()
	return injection{over: now()}
}

// delay delays a member's packets by a fifth of the TTL each way.
func delay(c *cluster) injection {
	m := c.anyone()
	return c.outage(m,
		func() { m.proxy.Delay(ttl / 5) },
		func() { m.proxy.Delay(0) })
}

func (c *cluster) parted(m *member) injection {
	c.t.Helper()
	return c.outage(m,
		func() { c.network.cut.Store(int64(1 + c.index(m))) },
		func() { c.network.cut.Store(-1) })
}

// loss loses one packet of five, everybody's.
func loss(c *cluster) injection {
	c.network.loss.Store(200)
	time.Sleep(outlasting)
	c.network.loss.Store(0)
	return injection{over: now()}
}
