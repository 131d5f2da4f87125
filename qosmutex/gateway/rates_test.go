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
		begun := time.Now()
		r := newRates(begun)
		const floods, seconds = 16, 3
		own := float64(ownRequests)
		if ahead {
			own = ownReleases
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
		if most := (2 + seconds) * (floods*own + poolRate); float64(read) > most {
			t.Errorf("ahead %t: %d of the floods' messages were read, at most %v should be", ahead, read, most)
		}
	}
}

// Requests that come too fast do not keep their client's releases from being read.
func TestReleasesHaveARateOfTheirOwn(t *testing.T) {
	now := time.Now()
	r := newRates(now)
	for r.take(&message{client: "c", at: now}) {
	}
	if !r.take(&message{client: "c", ahead: true, at: now}) {
		t.Error("a release was not read")
	}
}

// Clients are remembered while they are busy, and no more of them than there may be.
func TestRatesAreBounded(t *testing.T) {
	now := time.Now()
	r := newRates(now)
	for i := range 2 * maxClients {
		r.take(&message{client: fmt.Sprint(i), at: now})
	}
	if len(r.clients) != maxClients {
		t.Errorf("%d clients are remembered, not %d", len(r.clients), maxClients)
	}
	now = now.Add(time.Minute)
	r.take(&message{client: "new", at: now})
	if len(r.clients) != 1 {
		t.Errorf("%d clients are remembered that said nothing for a minute", len(r.clients)-1)
	}
}

// All topics of a client hear that its session has ended. How often it says so is bounded.
func TestEndsOfSessionsAreBounded(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		flood := s.client("flood", "crane")
		defer flood.close()
		flood.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		const ends = 1000
		for range ends {
			if err := flood.p.PublishRaw(pubsub.Main, []string{"lock", RoleTopic, "client", "flood", "request"}, []byte(`{"op":"gone","session":"none"}`), false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		read, dropped := g.counted("qosmutex_gateway_requests_total", string(jsonlock.Gone)), g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooFast))
		if read > 3*endRate || read == 0 || read+dropped != ends {
			t.Errorf("%v ends of sessions were read and %v dropped", read, dropped)
		}
	})
}
