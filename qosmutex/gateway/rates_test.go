package gateway

import (
	"fmt"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
)

// Many that flood take nothing of what another client may send, and in all a bounded part is read.
func TestFloodsLeaveOthersTheirRate(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		begun, limits := time.Now(), DefaultLimits()
		r := newRates(begun, &limits)
		const floods, seconds = 16, 3
		own := limits.ownRequests()
		if ahead {
			own = limits.ownReleases()
		}
		read := 0
		for ms := range seconds * 1000 {
			now := begun.Add(time.Duration(ms) * time.Millisecond)
			for i := range floods * 10 {
				if r.take(&message{client: fmt.Sprint(i % floods), ahead: ahead, at: now}) {
					read++
				}
			}
			if ms%10 == 0 && !r.take(&message{client: "polite", ahead: ahead, at: now}) {
				t.Fatalf("ahead %t: a message of a client that does not flood was not read after %d ms", ahead, ms)
			}
		}
		if most := (2 + seconds) * (floods*own + limits.pool()); float64(read) > most {
			t.Errorf("ahead %t: %d of the floods' messages were read, at most %v should be", ahead, read, most)
		}
	}
}

// Requests that come too fast do not keep their client's releases from being read.
func TestReleasesHaveARateOfTheirOwn(t *testing.T) {
	now, limits := time.Now(), DefaultLimits()
	r := newRates(now, &limits)
	for r.take(&message{client: "c", at: now}) {
	}
	if !r.take(&message{client: "c", ahead: true, at: now}) {
		t.Error("a release was not read")
	}
}

// Clients are remembered while they are busy, and no more of them than there may be.
func TestRatesAreBounded(t *testing.T) {
	now, limits := time.Now(), DefaultLimits()
	r := newRates(now, &limits)
	for i := range 2 * limits.clients() {
		r.take(&message{client: fmt.Sprint(i), at: now})
	}
	if len(r.clients) != limits.clients() {
		t.Errorf("%d clients are remembered, not %d", len(r.clients), limits.clients())
	}
	now = now.Add(time.Minute)
	r.take(&message{client: "new", at: now})
	if len(r.clients) != 1 {
		t.Errorf("%d clients are remembered that said nothing for a minute", len(r.clients)-1)
	}
}

// All topics of a client hear that its session has ended. How often they do is bounded, and who
// has few topics may end many sessions.
func TestEndsOfSessionsAreBounded(t *testing.T) {
	for topics, most := range map[int]int{256: 200, 10: 5120, 0: 10_000} {
		now, limits := time.Now(), DefaultLimits()
		r := newRates(now, &limits)
		read := 0
		for range 10_000 {
			if r.takeEnd(&message{client: "c", at: now}, topics) {
				read++
			}
		}
		if read != most {
			t.Errorf("%d ends of sessions were read by %d topics, not %d", read, topics, most)
		}
	}
}

func TestFloodOfEndsIsCut(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("flood", "crane")
		defer c.close()
		const topics, ends = 64, 1000
		c.ask(jsonlock.Acquire, "0", "", jsonlock.Granted)
		for i := range topics - 1 {
			c.request(fmt.Sprint("t", i), `{"op":"acquire","id":"1","sent":1}`)
		}
		time.Sleep(5 * time.Second)
		for range ends {
			c.request(RoleTopic, `{"op":"gone","session":"none"}`)
		}
		time.Sleep(100 * time.Millisecond)
		heard, cut := g.counted("qosmutex_gateway_requests_total", string(jsonlock.Gone)), g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooFast))
		if heard+topics*cut != topics*ends || cut < ends-endBurst/topics-2*endRate/topics {
			t.Errorf("%v ends were heard by %d topics, and %v cut", heard, topics, cut)
		}
	})
}

// A user may have a hundred connections and lose all of them at once: all their sessions end.
func TestAllSessionsOfAUserEndAtOnce(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("panel", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "0", "", jsonlock.Granted)
		const sessions = 100
		for round := range 4 { // as a link that flaps
			for i := range sessions {
				c.raw(fmt.Sprintf(`{"op":"acquire","id":"%d","session":"t%d","resource":"r%d","sent":1,"lease_ms":60000}`, round, i, i))
			}
			time.Sleep(time.Second)
			for i := range sessions {
				c.request(RoleTopic, fmt.Sprintf(`{"op":"release","session":"t%d"}`, i))
			}
			time.Sleep(time.Second)
		}
		other := s.client("other", "crane")
		defer other.close()
		for i := range sessions {
			other.send(jsonlock.Acquire, fmt.Sprint("x", i), fmt.Sprintf(`"resource":"r%d","wait_ms":0`, i))
		}
		time.Sleep(time.Second)
		granted := 0
		for len(other.answers) > 0 {
			if a := <-other.answers; a.Outcome == jsonlock.Granted {
				granted++
			}
		}
		if granted != sessions {
			t.Errorf("%d of %d resources are free", granted, sessions)
		}
	})
}

// Others that ask for what does not exist keep nobody from hearing that its hold is unknown.
func TestUnknownIsToldDespiteFloods(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		flood, honest := s.client("flood", "crane"), s.client("honest", "crane")
		defer flood.close()
		defer honest.close()
		for i := range 20 {
			for range 200 {
				flood.raw(`{"op":"query","id":"none","session":"n","sent":1}`)
			}
			honest.ask(jsonlock.Renew, fmt.Sprint("lost", i), "", jsonlock.Lost)
			time.Sleep(100 * time.Millisecond)
		}
		if n := g.counted("qosmutex_gateway_answers_total", string(jsonlock.Lost)); n > 20+2*unknownRate+2*unknownPool+4*(unknownRate+unknownPool) {
			t.Errorf("%v answers", n)
		}
	})
}

// What clients say about locks of another gateway does not count.
func TestLocksOfOthersCostNothing(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw", WithTopics("a", "b"))
		defer g.stop()
		c := s.client("hot", "a")
		defer c.close()
		c.ask(jsonlock.Acquire, "0", "", jsonlock.Granted)
		for range 6 {
			for range 2 * jsonlock.Rate {
				c.request("c", `{"op":"query","id":"1","session":"n","sent":1}`)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooFast)); n > 0 {
			t.Errorf("%v messages were too many", n)
		}
		c.ask(jsonlock.Query, "0", "", jsonlock.Granted)
	})
}

// request says something in another lock topic.
func (c *foreign) request(topic, payload string) {
	c.site.Helper()
	if err := c.p.PublishRaw(pubsub.Main, []string{"lock", topic, "client", c.p.ID(), "request"}, []byte(payload), false); err != nil {
		c.site.Fatal(err)
	}
}
