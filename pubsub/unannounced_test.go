package pubsub

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/cable"
)

// startWithRoles runs an embedded broker with users that are named like their roles.
func startWithRoles(t *testing.T) string {
	t.Helper()
	brokers.Stays(t.Name(), "its subject are the embedded broker's roles")
	var users broker.Users
	for name, role := range map[string]broker.Role{"member": broker.Member, "observer": broker.Observer, "client": broker.Client} {
		if err := errors.Join(users.Add(name, "secret"), users.Grant(name, role)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	return b.URL()
}

func as(user string) Option { return WithCredentials(user, "secret") }

// An observer may write nothing, not even its own presence, and reads all the same.
func TestObserverNeedsNoPresence(t *testing.T) {
	url := startWithRoles(t)
	member := join(t, url, "member", as("member"))
	w := writerOf(t, topicOf[pose](t, member, "p"), QoS{})
	if _, err := Join(testContext(t), url, "observer", append(at(t), as("observer"))...); err == nil {
		t.Fatal("an observer joined with a presence: then this test shows nothing")
	}
	o := join(t, url, "observer", as("observer"), Unannounced())

	if err := member.PublishRaw(Side, []string{"lock", "t", "r", "state"}, []byte("{}"), true); err != nil {
		t.Fatal(err)
	}
	states := make(chan RawMessage, 10)
	if _, err := o.SubscribeRaw(testContext(t), Main, []string{"lock", "+", "+", "state"}, func(m RawMessage) { states <- m }); err != nil {
		t.Fatal(err)
	}
	receive(t, states, "the state")
	for pr, err := range o.Peers(testContext(t)) {
		if err != nil || pr.ID != "member" || !pr.Alive {
			t.Fatalf("%+v, %v", pr, err)
		}
		break
	}
	samples := make(chan ObservedSample, 10)
	if _, err := o.ObserveSamples(testContext(t), "p", func(s ObservedSample) { samples <- s }); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(testContext(t), pose{X: 1}); err != nil {
		t.Fatal(err)
	}
	receive(t, samples, "the sample")
	if e, err := o.Endpoints(testContext(t)); err != nil || len(e) != 1 || e[0].Kind != "writer" || !e[0].Alive {
		t.Errorf("endpoints %+v, %v", e, err)
	}
	checkNeedsPresence(t, o)
}

func checkNeedsPresence(t *testing.T, p *Participant) {
	t.Helper()
	topic, err := NewTopic[pose](p, "p")
	if err != nil {
		t.Fatal(err)
	}
	_, writer := NewWriter(testContext(t), topic)
	_, reader := NewReader(testContext(t), topic)
	_, inbox := p.Inbox("c", func(Message) {})
	for what, err := range map[string]error{
		"a writer": writer, "a reader": reader, "an inbox": inbox,
		"Send": p.Send("member", "c", nil), "Post": p.Post("member", "c", nil),
	} {
		if !errors.Is(err, ErrUnannounced) || !strings.Contains(err.Error(), "Unannounced") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// tap counts the MQTT packets that a participant sends, by type.
type tap struct {
	to func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	types []byte
}

func (c *tap) dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.to(ctx)
	return &tapped{conn, c}, err
}

type tapped struct {
	net.Conn
	c *tap
}

func (c *tapped) Write(p []byte) (int, error) { // the MQTT client writes a packet at a time
	c.c.mu.Lock()
	c.c.types = append(c.c.types, p[0]>>4)
	c.c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *tap) sent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]byte{}, c.types...)
}

func TestUnannouncedSaysNothingButConnect(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		watcher := d.join("watcher")
		line := &tap{to: d.b.Dial}
		p := join(t, "", "a", WithDialer(line.dial), Unannounced())
		pass(time.Second)
		if got := line.sent(); len(got) != 1 || got[0] != 1 {
			t.Errorf("packets of types %v were sent, want CONNECT (1) alone", got)
		}
		twin := join(t, "", "a", WithDialer(d.b.Dial), Unannounced()) // nobody asks whether the id is free
		namesake := d.join("a")                                       // with a presence
		for pr, err := range twin.Peers(testContext(t)) {             // its own id's, too
			if err != nil {
				t.Fatal(err)
			}
			if pr.ID == "a" && pr.Alive {
				break
			}
		}
		closeNow(t, namesake)
		closeNow(t, twin)
		if !p.Connected() || p.Err() != nil {
			t.Errorf("a namesake disturbed it: %v", p.Err())
		}
		closeNow(t, p)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for pr := range watcher.Peers(ctx) {
			if pr.ID == "a" && pr.Alive {
				t.Errorf("it is seen: %+v", pr)
			}
		}
	})
}

func TestWillOfTheUnannounced(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		watcher := d.join("watcher")
		wills := make(chan RawMessage, 10)
		if _, err := watcher.SubscribeRaw(testContext(t), Main, []string{"lock", "gateway", "client", "+", "request"}, func(m RawMessage) { wills <- m }); err != nil {
			t.Fatal(err)
		}
		c := cable.New(d.b.Dial)
		p := join(t, "", "a b", WithDialer(c.Dial), Unannounced(), WithWill([]string{"lock", "gateway", "client", "a b", "request"}, []byte("gone")))
		heard := make(chan RawMessage, 10)
		if _, err := p.SubscribeRaw(testContext(t), Main, []string{"x"}, func(m RawMessage) { heard <- m }); err != nil {
			t.Fatal(err)
		}
		ups := make(chan bool, 10)
		defer p.Notify(func(up bool) { ups <- up })()
		for range 2 { // each loss again
			c.Cut()
			if m := receive(t, wills, "the will"); string(m.Payload) != "gone" || m.Retained || m.Levels[3] != "a b" {
				t.Errorf("%+v", m)
			}
			c.Restore()
			if receive(t, ups, "the loss") || !receive(t, ups, "the reconnection") {
				t.Fatal("the connection did not come back")
			}
			if err := watcher.PublishRaw(Main, []string{"x"}, nil, false); err != nil {
				t.Fatal(err)
			}
			receive(t, heard, "a message after the reconnection")
		}
		late := make(chan RawMessage, 10)
		if _, err := watcher.SubscribeRaw(testContext(t), Main, []string{"lock", "#"}, func(m RawMessage) { late <- m }); err != nil {
			t.Fatal(err)
		}
		closeNow(t, p)
		pass(time.Minute)
		if len(wills) > 0 || len(late) > 0 {
			t.Error("the will was retained, or came after Close")
		}
	})
}

func TestOptionsOfPresenceContradict(t *testing.T) {
	will := WithWill([]string{"a"}, nil)
	for says, opts := range map[string][]Option{
		"WithWill without Unannounced":  {will},
		"WithUserData with Unannounced": {Unannounced(), WithUserData(map[string]string{"a": "b"})},
		"WithTakeover with Unannounced": {Unannounced(), WithTakeover()},
		"the topic of the will":         {Unannounced(), WithWill([]string{""}, nil)},
		"at least one level":            {Unannounced(), WithWill(nil, nil)},
		"split it":                      {Unannounced(), WithWill([]string{"a"}, make([]byte, MaxPayload+1))},
	} {
		if _, err := Join(testContext(t), "x:1883", "a", opts...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
