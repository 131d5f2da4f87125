package gateway

import (
	"fmt"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register/local"
)

// A gateway that comes near its limit lets go of the topic whose clients have been silent
// for longest, of those of the client that is near its own.
func TestGatewayLetsGoOfSilentTopics(t *testing.T) {
	g := &gateway{topics: map[string]*topic{}, named: map[string]int{}}
	var ended []string
	const many = 20
	for i := range many {
		topic := newTopic(g, fmt.Sprint(i))
		topic.by = "abcd"[i%4 : i%4+1]
		g.named[topic.by]++
		topic.end = func() { ended = append(ended, topic.name) }
		topic.used.Store(time.Now().Add(time.Duration(i) * time.Second).UnixNano())
		topic.live.Store(int32(1 - i%2)) // every other one
		g.topics[topic.name] = topic
	}
	g.makeRoom("", time.Now())
	later := time.Now().Add(letGoAfter + many*time.Second)
	g.makeRoom("", later)
	g.makeRoom("a", later) // whose are in use
	g.makeRoom("d", later)
	if got := fmt.Sprint(ended, len(g.topics), g.named["b"], g.named["d"]); got != fmt.Sprint([]string{"1", "3"}, many-2, 4, 4) {
		t.Error(got)
	}
}

// A client that names many lock topics gets as many as it may, and leaves room for others.
// After a while without use they are given up.
func TestTopicsOfOneClientAreBounded(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory(), qosmutex.WithTopicLimits(qosmutex.TopicLimits{Total: 40, PerUser: 8, Idle: 10 * time.Minute}))
		defer n.die()
		flood, polite := s.client("flood", "f-0"), s.client("polite", "crane")
		defer flood.close()
		defer polite.close()
		open := func() float64 { return counted(t, n.metrics, "qosmutex_server_topics", "node") }
		flood.ask(jsonlock.Acquire, "0", "", jsonlock.Granted)
		flood.ask(jsonlock.Release, "0", "", jsonlock.Released)
		for i := range 50 {
			err := flood.p.PublishRaw(pubsub.Main, []string{"lock", fmt.Sprint("f-", i), "client", "flood", "request"}, []byte(`{"op":"acquire","id":"n","wait":60}`), false)
			if err != nil {
				t.Fatal(err)
			}
		}
		first := polite.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		polite.ask(jsonlock.Release, "1", "", jsonlock.Released)
		time.Sleep(time.Second) // the flood takes another connection
		if got := counted(t, n.metrics, "qosmutex_gateway_refused_total", string(jsonlock.TooMany)); got != 46 {
			t.Errorf("%v were refused", got)
		}
		if got := open(); got != 6 { // of the flood, the polite one's, and the gateways' own
			t.Errorf("%v topics are open", got)
		}
		time.Sleep(40 * time.Minute)
		if got := open(); got != 0 {
			t.Errorf("%v topics are open after a while", got)
		}
		if again := polite.ask(jsonlock.Acquire, "2", "", jsonlock.Granted); fenceOf(t, again) <= fenceOf(t, first) {
			t.Errorf("fence %s after %s", again.Fence, first.Fence)
		}
	})
}

// A client has all of 256 locks that it holds, and two that name as many as they can leave a quarter
// of a gateway's room to others.
func TestTopicsOfTwoClientsLeaveRoom(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		const named, others = 256, 128
		for _, id := range []string{"one", "two"} {
			c := s.client(id, "crane")
			defer c.close()
			for range 6 { // what comes before a lock topic is served is said again
				for i := range named {
					c.request(fmt.Sprint(id, i), `{"op":"acquire","id":"1","lease_ms":600000}`)
				}
				time.Sleep(2 * time.Second)
			}
		}
		if live := g.counted("qosmutex_gateway_live_requests", "gw"); live != 2*named-others {
			t.Errorf("%v locks are held, not %d", live, 2*named-others)
		}
		polite := s.client("polite", "a new one")
		defer polite.close()
		polite.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
	})
}

// What nobody has used for a while makes room for those that have many, too.
func TestSilentTopicsMakeRoomForMany(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		for _, id := range []string{"one", "two"} {
			c := s.client(id, "crane")
			for _, op := range []string{"acquire", "acquire", "acquire", "release"} { // what comes before a lock topic is served is said again
				for i := range 200 {
					c.request(fmt.Sprint(id, i), fmt.Sprintf(`{"op":%q,"id":"1"}`, op))
				}
				time.Sleep(2 * time.Second)
			}
			c.close()
		}
		time.Sleep(3 * time.Minute)
		again := s.client("one", "a new one")
		defer again.close()
		again.ask(jsonlock.Acquire, "2", "", jsonlock.Granted)
	})
}
