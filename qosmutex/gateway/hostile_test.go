package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
)

func TestWhatIsNotARequestIsAnsweredAndCounted(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw", WithTopics("crane"))
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		for payload, want := range map[string]jsonlock.Reason{
			``:                                       jsonlock.Malformed,
			`hello`:                                  jsonlock.Malformed,
			`[]`:                                     jsonlock.Malformed,
			`{"op":"acquire","id":"x"} {}`:           jsonlock.Malformed,
			`{"op":"acquire","id":7}`:                jsonlock.Malformed,
			"{\"op\":\"acquire\",\"id\":\"\xff\"}":   jsonlock.Malformed,
			`{"op":"acquire"}`:                       jsonlock.BadID,
			`{"op":"format","id":"x"}`:               jsonlock.BadOp,
			`{"op":"raise","id":"1"}`:                jsonlock.BadPriority,
			strings.Repeat("[", jsonlock.MaxRequest): jsonlock.Malformed,
			strings.Repeat("[", jsonlock.MaxRequest+1): jsonlock.TooLarge,
			`{"op":"acquire","id":"` + long + `"}`:     jsonlock.BadID,
		} {
			before := g.counted("qosmutex_gateway_refused_total", string(want))
			c.raw(payload)
			for {
				a := <-c.answers
				if a.Outcome == jsonlock.Denied {
					if a.Reason != want || a.Detail == "" {
						t.Errorf("%.60q: %+v, want %s", payload, a, want)
					}
					break
				}
			}
			if after := g.counted("qosmutex_gateway_refused_total", string(want)); after != before+1 {
				t.Errorf("%.60q: %s counted %v times", payload, want, after-before)
			}
		}
		c.raw(`{"op":"release","session":"` + long + `"}`)
		if a := c.await("", jsonlock.Denied); a.Reason != jsonlock.BadID {
			t.Errorf("a long session: %+v", a)
		}
		c.ask(jsonlock.Renew, "1", "", jsonlock.Granted) // and nothing of it has changed anything
	})
}

var long = strings.Repeat("x", jsonlock.MaxName+1)

func TestClientIsBounded(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		flood, polite := s.client("flood", "crane"), s.client("polite", "crane")
		defer flood.close()
		defer polite.close()
		polite.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		for i := range jsonlock.MaxLive {
			flood.send(jsonlock.Acquire, fmt.Sprint(i), fmt.Sprintf(`"resource":"r%d"`, i))
		}
		if a := flood.ask(jsonlock.Acquire, "one more", "", jsonlock.Denied); a.Reason != jsonlock.TooMany {
			t.Errorf("%+v", a)
		}
		for range 50 {
			for range 200 {
				flood.raw("x")
			}
			time.Sleep(10 * time.Millisecond)
		}
		for range 200 {
			flood.raw("x")
		}
		flood.send(jsonlock.Renew, "0", "") // others would pay if these were dropped
		flood.await("0", jsonlock.Granted)
		flood.send(jsonlock.Release, "0", "")
		flood.await("0", jsonlock.Released)
		polite.ask(jsonlock.Renew, "1", "", jsonlock.Granted)
		if n := g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooFast)); n == 0 {
			t.Error("nothing was too fast")
		}
		if n := g.counted("qosmutex_gateway_refused_total", string(jsonlock.Malformed)); n > 4*jsonlock.Rate {
			t.Errorf("%v messages of a client were read in a second", n)
		}
	})
}

// What people call yard/b is resource b of yard: it must not be a lock of its own.
func TestLockTopicsHaveNoSlash(t *testing.T) {
	if err := CheckTopic("yard/b"); err == nil {
		t.Error("yard/b may be offered")
	}
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "yard/b")
		defer c.close()
		if a := c.ask(jsonlock.Acquire, "1", "", jsonlock.Denied); a.Reason != jsonlock.BadResource || !strings.Contains(a.Detail, `"b"`) {
			t.Errorf("%+v", a)
		}
	})
}
