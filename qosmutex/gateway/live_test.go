package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
	"padme/tests/capture"
)

// One client, over all lock topics, leaves the others most of the requests that a gateway has
// room for. It is told so, and so are people.
func TestRequestsOfOneClientAreBounded(t *testing.T) {
	onSite(t, func(s *site) {
		var log capture.Text
		g := s.gateway("gw", WithLogger(log.Logger()))
		defer g.stop()
		const most, more = 1 << 11, 100
		greedy, other := s.client("greedy", "crane"), s.client("other", "crane")
		defer greedy.close()
		defer other.close()
		for range 2 { // what comes before a lock topic is served is said again
			for i := range most / jsonlock.MaxLive {
				for j := range jsonlock.MaxLive {
					greedy.request(fmt.Sprint("t", i), fmt.Sprintf(`{"op":"acquire","id":"%d","sent":1,"lease_ms":600000}`, j))
				}
				time.Sleep(3 * time.Second)
			}
		}
		for i := range more {
			greedy.send(jsonlock.Acquire, fmt.Sprint("m", i), `"lease_ms":600000`)
		}
		if a := greedy.await("m0", jsonlock.Denied); a.Reason != jsonlock.TooMany || !strings.Contains(a.Detail, fmt.Sprint(most)) || strings.Contains(a.Detail, "busy") {
			t.Errorf("%+v", a)
		}
		time.Sleep(time.Second)
		if live := g.counted("qosmutex_gateway_live_requests", "gw"); live != most {
			t.Errorf("%v requests live, not %d", live, most)
		}
		if refused := g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooMany)); refused != more {
			t.Errorf("%v requests were refused, not %d", refused, more)
		}
		if n := strings.Count(log.String(), "client=greedy"); n != 1 {
			t.Errorf("%d lines of the log name the client: %s", n, log.String())
		}
		other.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		other.ask(jsonlock.Release, "1", "", jsonlock.Released)
		greedy.request("t0", `{"op":"release","id":"9"}`)
		greedy.ask(jsonlock.Acquire, "again", "", jsonlock.Granted)
	})
}
