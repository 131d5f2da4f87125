//go:build linux

package clients

import (
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/qosmutex/jsonlock"
	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
)

var fleetSize = flag.Int("fleet", 400, "clients of TestFleet")

// docks are the lock topics of a fleet, one connection each.
const docks = 4

// loneSite is a broker that roots locks, with nothing else around it.
func loneSite(t *testing.T, flags ...string) *site {
	s := &site{T: t, dir: t.TempDir(), addr: address.Free(t)}
	s.url = "mqtt://" + s.addr
	s.broker = start(t, "broker", s.dir, nil, append([]string{bin, "broker", "--listen", s.addr, "--ready-file", s.dir + "/ready"}, flags...)...)
	poll.Within(t, patience, "the broker serves", func() bool { return exists(s.dir + "/ready") })
	return s
}

// TestFleet has clients hold and wait on one `serve`, a tenth of them inside, and prints
// what each costs. Then that `serve` is killed: nobody enters beside somebody who may
// believe to be inside, and everybody is served by the one that takes over.
func TestFleet(t *testing.T) {
	extent.Long(t, "thousands of clients")
	extent.NotShort(t, "real processes")
	s := loneSite(t, "--memory")
	var names []string
	for i := range docks {
		names = append(names, fmt.Sprint("dock-", i))
	}
	first := s.gateway("gw-1", names...)
	n := s.node("watcher")
	for _, name := range names {
		n.awaitActive(name, "gw-1")
	}
	s.gateway("gw-2", names...)
	base := resident(t, first.Process.Pid)
	var fleets []*fleet
	began := time.Now()
	each := *fleetSize / docks
	berths := max(each/10, 1)
	for _, name := range names {
		fleets = append(fleets, launch(t, s.url, name, each, berths))
	}
	sum := func() (inside, done, busy int) {
		for _, f := range fleets {
			i, d, b, err := f.count()
			if err != nil {
				t.Fatal(err)
			}
			inside, done, busy = inside+i, done+d, busy+b
		}
		return inside, done, busy
	}
	said := began
	poll.Within(t, patience, "nearly a tenth is inside", func() bool {
		i, _, busy := sum()
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			t.Logf("after %v: %d inside, %d told that it is busy", time.Since(began).Round(time.Second), i, busy)
		}
		return i >= docks*berths*9/10 // some lose it again on a computer that is busy
	})
	inside := time.Since(began)
	time.Sleep(12 * time.Second) // four renewals of those that wait
	full := resident(t, first.Process.Pid)
	now, _, busy := sum()
	t.Logf("%d clients, %d inside after %v and %d later; %d kB of the gateway for each; %d were told that it is busy",
		docks*each, docks*berths, inside.Round(time.Millisecond), now, (full-base)/(docks*each)>>10, busy)

	first.Kill()
	killed := time.Now()
	for _, f := range fleets {
		f.letGo()
	}
	var one time.Duration
	poll.Within(t, patience, "everybody was served", func() bool {
		_, done, _ := sum()
		if one == 0 && done > 0 {
			one = time.Since(killed)
		}
		return done == docks*each
	})
	t.Logf("killed: the next one was inside after %v, the last one after %v", one.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
}

// TestThroughput prints how many requests of clients are answered in a second, by the broker
// itself and by a `serve` beside it.
func TestThroughput(t *testing.T) {
	extent.Long(t, "ten seconds of load")
	extent.NotShort(t, "real processes")
	s := loneSite(t, "--memory")
	n := s.node("watcher")
	s.gateway("gw-1", "beside")
	n.awaitActive("beside", "gw-1")
	time.Sleep(4 * time.Second) // a new register grants nothing before
	for _, topic := range []string{"inside", "beside"} {
		const clients, during = 16, 3 * time.Second
		var answered [clients]int
		var all sync.WaitGroup
		end := time.Now().Add(during)
		for i := range clients {
			c := newRaw(t, s.url, topic, fmt.Sprintf("%s-%d", topic, i))
			all.Go(func() {
				for k := 0; time.Now().Before(end); k++ {
					more := fmt.Sprintf(`,"resource":"r%d"`, i)
					if c.ask("acquire", strconv.Itoa(k), more).Outcome == jsonlock.Granted && c.ask("release", strconv.Itoa(k), "").Outcome == jsonlock.Released {
						answered[i] += 2
					}
				}
			})
		}
		all.Wait()
		total := 0
		for _, n := range answered {
			total += n
		}
		t.Logf("%s: %d connections, %.0f requests a second", topic, clients, float64(total)/during.Seconds())
		if total == 0 {
			t.Errorf("%s: nothing was answered", topic)
		}
	}
}

// raw is a client without any library of ours but the JSON.
type raw struct {
	t       *testing.T
	conn    paho.Client
	base    string
	answers chan jsonlock.Answer
}

func newRaw(t *testing.T, url, topic, id string) *raw {
	t.Helper()
	c := &raw{t: t, conn: dial(t, url, id), answers: make(chan jsonlock.Answer, 100)}
	t.Cleanup(func() { c.conn.Disconnect(0) })
	c.listen(topic, id)
	return c
}

// listen begins with another lock topic.
func (c *raw) listen(topic, id string) {
	c.t.Helper()
	c.base = "padme/v1/default/lock/" + topic + "/client/" + id
	tok := c.conn.Subscribe(c.base+"/answer", 0, func(_ paho.Client, m paho.Message) {
		if a, err := jsonlock.DecodeAnswer(m.Payload()); err == nil {
			c.answers <- a
		}
	})
	if !tok.WaitTimeout(patience) || tok.Error() != nil {
		c.t.Fatal(tok.Error())
	}
}

// ask sends a request, again each second, and returns the first answer that does not say
// that it waits.
func (c *raw) ask(op, id, more string) jsonlock.Answer {
	for range int(patience / time.Second) {
		c.conn.Publish(c.base+"/request", 1, false, fmt.Sprintf(`{"op":%q,"id":%q,"sent":%d%s}`, op, id, time.Now().UnixMilli(), more))
		again := time.NewTimer(time.Second)
		for waiting := true; waiting; {
			select {
			case a := <-c.answers:
				if a.ID == id && a.Outcome != jsonlock.Waiting && !(op == "release" && a.Outcome == jsonlock.Granted) {
					again.Stop()
					return a
				}
			case <-again.C:
				waiting = false
			}
		}
	}
	return jsonlock.Answer{Outcome: "never answered"}
}

// TestFirstUse prints how long the first use of a lock takes that nobody has named before,
// at a broker that runs, with its register in a file.
func TestFirstUse(t *testing.T) {
	extent.Long(t, "a thousand first uses")
	extent.NotShort(t, "real processes")
	t.Parallel()
	dir := t.TempDir()
	s := loneSite(t, "--data", dir)
	c := newRaw(t, s.url, "warm", "raw")
	if a := c.ask("acquire", "0", ""); a.Outcome != jsonlock.Granted {
		t.Fatalf("%+v", a)
	}
	time.Sleep(4 * time.Second)                                             // from then on it has heard for a TTL that there is no other root
	for i, more := range []string{"", `,"wait_ms":0`, `,"wait_ms":10000`} { // long enough for a disk that is busy
		var took, again []time.Duration
		for k := range 20 {
			c.listen(fmt.Sprintf("new-%d-%d", i, k), "raw")
			for _, times := range []*[]time.Duration{&took, &again} {
				id := fmt.Sprint(len(*times))
				if times == &again {
					id += "-again"
				}
				began := time.Now()
				if a := c.ask("acquire", id, more); a.Outcome != jsonlock.Granted {
					t.Errorf("%q: %+v", more, a)
				}
				*times = append(*times, time.Since(began))
				c.ask("release", id, "")
			}
		}
		t.Logf("first use%s: median %v, longest %v; then median %v", more, median(took).Round(10*time.Microsecond), longest(took).Round(10*time.Microsecond), median(again).Round(10*time.Microsecond))
	}
}

func longest(all []time.Duration) (d time.Duration) {
	for _, x := range all {
		d = max(d, x)
	}
	return d
}
