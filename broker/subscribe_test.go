package broker_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/poll"
)

// subscribed sends a SUBSCRIBE of MQTT 5 and returns the codes of its answer, and the
// topics and QoS of what came before a message to itself.
func (c *rawConn) subscribed(filters ...[]byte) (codes []byte, came []string) {
	c.t.Helper()
	c.send(packet(0x82, []byte{0, 7, 0}, bytes.Join(filters, nil)))
	c.send(packet(0x30, text("end"), []byte{0}))
	for {
		switch first, body := c.receive(); first & 0xf0 {
		case 0x90:
			codes = body[3:]
		case 0x30:
			topic := string(body[2 : 2+int(body[1])])
			if topic == "end" {
				slices.Sort(came)
				return codes, came
			}
			came = append(came, fmt.Sprint(topic, " ", first>>1&3))
		default:
			c.t.Fatalf("packet %#x %v", first, body)
		}
	}
}

// filter is one of MQTT 5 with its options: QoS, retain handling in the third nibble.
func filter(f string, options byte) []byte { return append(text(f), options) }

// A SUBSCRIBE is answered filter by filter, and sent what is retained once.
func TestOverlappingFiltersAreSentRetainedMessagesOnce(t *testing.T) {
	b := start(t, broker.Config{})
	pub := connect(t, inProcess(b))
	for _, topic := range []string{"r", "r/a", "r/b", "r/b/c", "s"} {
		pub.publish(topic, "x", 1, true)
	}
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 5, 17, 0, 0, 0, 60}, text("sub")))
	c.receive()
	c.subscribed(filter("end", 0))
	for _, s := range []struct {
		filters [][]byte
		codes   []byte
		came    []string
	}{
		{[][]byte{filter("r/+", 0), filter("r/a", 1), filter("r/#/x", 0), filter("r/+", 0)}, []byte{0, 1, 0x8f, 0}, []string{"r/a 0", "r/b 0"}},
		{[][]byte{filter("r/+", 0x10), filter("s", 0x10)}, []byte{0, 0}, []string{"s 0"}}, // those that are new
		{[][]byte{filter("r/+", 0x20)}, []byte{0}, nil},                                   // none
		{[][]byte{filter("r/#", 0), filter("$share/g/r/+", 0)}, []byte{0, 0}, []string{"r 0", "r/a 0", "r/b 0", "r/b/c 0"}},
		{[][]byte{filter("nothing/+", 0)}, []byte{0}, nil},
		{[][]byte{filter("s", 0x20), filter("s", 0)}, []byte{0, 0}, []string{"s 0"}}, // the last one counts
	} {
		codes, came := c.subscribed(s.filters...)
		if !bytes.Equal(codes, s.codes) || !slices.Equal(came, s.came) {
			t.Errorf("%q: codes %v, came %q,\nwant %v, %q", s.filters, codes, came, s.codes, s.came)
		}
	}
}

// A session that ends with its connection is sent them at QoS 0.
func TestRetainedMessagesOfCleanSessions(t *testing.T) {
	b := start(t, broker.Config{})
	connect(t, inProcess(b)).publish("r", "x", 1, true)
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text("sub")))
	c.receive()
	c.subscribed(filter("end", 0))
	if codes, came := c.subscribed(filter("r", 1)); codes[0] != 1 || !slices.Equal(came, []string{"r 0"}) {
		t.Errorf("codes %v, came %q", codes, came)
	}
}

// What is more than a queue holds comes all the same, and only what the user may read.
func TestManyRetainedMessages(t *testing.T) {
	const n = 10_000 // mochi's queue holds 8192
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{Retained: 1 << 30}})
	pub := connect(t, inProcess(b), as("alice", "alice"))
	for i := range n {
		pub.Publish(fmt.Sprintf("padme/v1/default/data/p/t/k%d/alice/w", i), 0, true, "x")
	}
	pub.publish("padme/v1/default/node/bob/alice", "for bob", 1, true)
	for _, qos := range []byte{0, 1} {
		c := connect(t, inProcess(b), as("watch", "watch"))
		c.subscribe("padme/#", qos)
		c.receive(n)
		if slices.Contains(c.payloads(), "for bob") {
			t.Error("an observer reads what is for bob")
		}
	}
}

// While one is sent all that is retained, and does not read it, others go on retaining.
func TestRetainingGoesOnWhileOneDoesNotRead(t *testing.T) {
	t.Run("and its session ends with it", func(t *testing.T) { testRetainingGoesOn(t, 2) })
	t.Run("and its session stays", func(t *testing.T) { testRetainingGoesOn(t, 0) })
}

func testRetainingGoesOn(t *testing.T, flags byte) {
	const n = 300
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 10 * patience, Retained: 1 << 30}})
	pub := connect(t, inProcess(b))
	load := strings.Repeat("x", 100_000) // in all more than the kernel and the broker take at once
	for i := range n {
		pub.publish(fmt.Sprint("r/", i), load, 1, true)
	}
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, flags, 0, 60}, text("stalled")))
	if first, _ := c.receive(); first != 0x20 {
		t.Fatalf("packet %#x", first)
	}
	c.send(packet(0x82, []byte{0, 1}, text("r/#"), []byte{1}))
	if first, _ := c.receive(); first != 0x90 {
		t.Fatalf("packet %#x", first)
	}
	for range 20 {
		pub.publish("s", "x", 1, true)
	}
	pub.subscribe("s", 1)
	for got := 0; got < n; {
		if first, body := c.receive(); first&0xf0 == 0x30 && len(body) > len(load) {
			got++
		}
	}
}

// Nobody waits for a client that asks for its role and reads nothing.
func TestRetainingGoesOnWhileRolesAreNotRead(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{WriteTimeout: 10 * patience, UserRate: 1e9}})
	for i := range 2 {
		c := raw(t, b)
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		c.send(packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text(fmt.Sprint("stalled", i)), text("watch"), text("watch")))
		if first, _ := c.receive(); first != 0x20 {
			t.Fatalf("packet %#x", first)
		}
		for j := range byte(30) { // in all more than the kernel takes
			var filters [][]byte
			for k := range 100 {
				filters = append(filters, text(fmt.Sprintf("padme/v1/%d%s/role", k, strings.Repeat("x", 5000))), []byte{0})
			}
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(packet(0x82, append([][]byte{{0, j + 1}}, filters...)...)); err != nil {
				break
			}
		}
	}
	other := connect(t, inProcess(b), as("root", "root"))
	for i := range 20 {
		other.publish("padme/v1/default/topic/t", "x", 1, true)
		other.subscribe(fmt.Sprint("padme/v1/default/topic/", i), 1)
	}
}

// What is retained while somebody subscribes comes, one way or the other.
func TestNothingRetainedIsMissed(t *testing.T) {
	b := start(t, broker.Config{})
	pub := connect(t, inProcess(b))
	sub := connect(t, inProcess(b))
	const n = 1000
	for i := range n {
		published := make(chan struct{})
		go func() {
			defer close(published)
			pub.publish(fmt.Sprintf("r/%d/a", i), "x", 1, true)
		}()
		sub.subscribe(fmt.Sprintf("r/%d/+", i), byte(i%2))
		<-published
		got := map[string]bool{}
		poll.UntilOr(t, func() bool {
			sub.mu.Lock()
			defer sub.mu.Unlock()
			for _, m := range sub.inbox {
				got[m.Topic()] = true
			}
			sub.inbox = nil
			return got[fmt.Sprintf("r/%d/a", i)]
		}, func() string { return fmt.Sprintf("message %d was missed", i) })
	}
}

// What is retained during a SUBSCRIBE comes after what it replaces.
func TestReplayIsInOrder(t *testing.T) {
	b := start(t, broker.Config{})
	pub := connect(t, inProcess(b))
	sub := connect(t, inProcess(b))
	const topics, rounds = 20, 60
	latest := map[string]int{}
	var mu sync.Mutex
	back := 0
	hear := func(_ paho.Client, m paho.Message) {
		n, err := strconv.Atoi(string(m.Payload()))
		mu.Lock()
		defer mu.Unlock()
		if err != nil || n < latest[m.Topic()] {
			back++
		}
		latest[m.Topic()] = n
	}
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stopped:
				return
			default:
				pub.publish(fmt.Sprint("r/", n%topics), strconv.Itoa(n), byte(n/topics%2), true)
			}
		}
	})
	for range rounds {
		if token := sub.Subscribe("r/#", 1, hear); !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	close(stopped)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if back > 0 {
		t.Errorf("%d messages came after newer ones of their topics", back)
	}
}

// Shared subscriptions, which cost everybody's publications, are few for each user, in
// all its sessions.
func TestSharedSubscriptionsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Users: cast(t), Metrics: registry, Limits: broker.Limits{SharedSubscriptions: 3}})
	in := func(id, user string) *rawConn {
		c := raw(t, b)
		c.send(connect5(id, user, user, 0))
		c.receive()
		return c
	}
	first, second, other := in("first", "alice"), in("second", "alice"), in("other", "bob")
	group := func(n int) []byte { return filter(fmt.Sprintf("$share/g%d/#", n), 0) }
	for _, s := range []struct {
		c       *rawConn
		filters [][]byte
		codes   []byte
	}{
		{first, [][]byte{group(1), group(2), group(2)}, []byte{0, 0, 0}},
		{second, [][]byte{group(3), filter("padme/#", 0), group(4)}, []byte{0, 0, 0x97}},
		{second, [][]byte{group(3), group(5)}, []byte{0, 0x97}},
		{other, [][]byte{group(1), group(2), group(3)}, []byte{0, 0, 0}},
	} {
		s.c.send(packet(0x82, []byte{0, 7, 0}, bytes.Join(s.filters, nil)))
		if first, body := s.c.receive(); first != 0x90 || !bytes.Equal(body[3:], s.codes) {
			t.Errorf("%q: %#x %v, want %v", s.filters, first, body, s.codes)
		}
	}
	if n := gather(t, registry)["padme_broker_limited_total/max-shared-subscriptions"]; n != 2 {
		t.Errorf("reached %v times", n)
	}
}

// Packets that hold too much cost their sender its connection, and MQTT 5 says why.
func TestPacketsThatHoldTooMuch(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Metrics: registry, Limits: broker.Limits{Filters: 2, Properties: 2, TopicLevels: 8}})
	deep := text("1/2/3/4/5/6/7/8/9")
	user := []byte{38, 0, 0, 0, 0}
	for i, c := range []struct {
		version byte
		packet  []byte
	}{
		{4, packet(0x82, []byte{0, 1}, bytes.Repeat(filter("a", 0), 3))},
		{5, packet(0x82, []byte{0, 1, 0}, bytes.Repeat(filter("a", 0), 3))},
		{5, packet(0xa2, []byte{0, 1, 0}, bytes.Repeat(text("a"), 3))},
		{4, packet(0x30, deep)},
		{5, packet(0x30, deep, []byte{0})},
		{5, packet(0x82, []byte{0, 1, 0}, append(deep, 0))},
		{5, packet(0x30, text("a"), []byte{15}, bytes.Repeat(user, 3))},
	} {
		r := raw(t, b)
		connect := packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text(fmt.Sprint("c", i)))
		if c.version == 5 {
			connect = packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text(fmt.Sprint("c", i)))
		}
		r.send(connect)
		r.receive()
		r.send(c.packet)
		if c.version == 5 {
			if first, body := r.receive(); first != 0xe0 || body[0] != 0x97 {
				t.Errorf("%d: packet %#x %v, want a DISCONNECT with 0x97", i, first, body)
			}
		}
		r.gone()
	}
	wantLimited(t, registry, map[string]float64{"max-filters": 3, "max-topic-levels": 3, "max-properties": 1})
}

// Of one user only so many sessions are subscribed to what all others publish.
func TestWideFiltersOfOneUser(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Users: cast(t), Metrics: registry, Limits: broker.Limits{UserWildcards: 1}})
	in := func(id, user string) *rawConn {
		c := raw(t, b)
		c.send(connect5(id, user, user, 0))
		c.receive()
		return c
	}
	first, second, other := in("first", "alice"), in("second", "alice"), in("other", "bob")
	for _, s := range []struct {
		c       *rawConn
		filters [][]byte
		codes   []byte
	}{
		{first, [][]byte{filter("#", 0), filter("padme/v1/+/node/alice/#", 0)}, []byte{0, 0}},
		{second, [][]byte{filter("padme/v1/default/data/+/#", 0), filter("padme/v1/default/lock/crane/#", 0), filter("padme/#", 0)}, []byte{0x97, 0, 0x97}},
		{second, [][]byte{filter("$share/g/#", 0), filter("padme/v1/default/presence/bob", 0)}, []byte{0x97, 0}},
		{other, [][]byte{filter("#", 0)}, []byte{0}},
	} {
		s.c.send(packet(0x82, []byte{0, 7, 0}, bytes.Join(s.filters, nil)))
		if first, body := s.c.receive(); first != 0x90 || !bytes.Equal(body[3:], s.codes) {
			t.Errorf("%q: %#x %v, want %v", s.filters, first, body, s.codes)
		}
	}
	if n := gather(t, registry)["padme_broker_limited_total/max-user-wildcards"]; n != 3 {
		t.Errorf("reached %v times", n)
	}
}

// A user has a bounded number of wide filters, whatever became of those that were refused,
// repeated or given up: many match the same topic, and each costs every publication there.
func TestWideFiltersAreBounded(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{UserWildcards: 1}})
	c := raw(t, b)
	c.send(connect5("c", "alice", "alice", 0))
	c.receive()
	subscribe := func(from, to int) (granted int) {
		t.Helper()
		var all [][]byte
		for i := range to - from { // "padme/+/default/data/+/k7" and the like
			all = append(all, filter(fmt.Sprintf("padme/+/default/data/+/k%d", from+i), 0x20))
		}
		c.send(packet(0x82, []byte{0, 7, 0}, bytes.Join(all, nil)))
		_, body := c.receive()
		for _, code := range body[3:] {
			if code == 0 {
				granted++
			}
		}
		return granted
	}
	for range 3 { // again and again is the same
		if n := subscribe(0, 10); n != 10 {
			t.Fatalf("%d granted of 10", n)
		}
	}
	if n := subscribe(20, 60); n != 6 {
		t.Errorf("%d more granted, want 6: 16 in all", n)
	}
	if n := subscribe(60, 100); n != 0 {
		t.Errorf("%d granted beyond", n)
	}
	c.send(packet(0xa2, []byte{0, 8, 0}, text("padme/+/default/data/+/k0"), text("padme/+/default/data/+/k1"), text("padme/+/default/data/+/nothing")))
	c.receive()
	if n := subscribe(60, 100); n != 2 {
		t.Errorf("%d granted after two were given up", n)
	}
}

// A connection that takes over its former one's session has its wide filters, too.
func TestWideFiltersOfASessionStayCounted(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{UserWildcards: 2}})
	c, _ := keep(t, b, "c", "alice", 60)
	var all []string
	for i := range 32 {
		all = append(all, fmt.Sprintf("padme/+/default/data/+/k%d", i))
	}
	if codes := c.subscribe(5, all...); bytes.Contains(codes, []byte{0x97}) {
		t.Fatalf("refused: %v", codes)
	}
	keep(t, b, "c", "alice", 60)
	d, _ := keep(t, b, "d", "alice", 60)
	if codes := d.subscribe(5, "padme/+/default/data/+/k"); !bytes.Equal(codes, []byte{0x97}) {
		t.Errorf("one more than 32: %v", codes)
	}
}
