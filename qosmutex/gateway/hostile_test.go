package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestWhatIsNotARequestIsAnsweredAndCounted(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw", WithTopics("crane"))
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(Acquire, "1", "", Granted)
		for payload, want := range map[string]Reason{
			``:                                     Malformed,
			`hello`:                                Malformed,
			`[]`:                                   Malformed,
			`{"op":"acquire","id":"x"} {}`:         Malformed,
			`{"op":"acquire","id":7}`:              Malformed,
			"{\"op\":\"acquire\",\"id\":\"\xff\"}": Malformed,
			`{"op":"acquire"}`:                     BadID,
			`{"op":"format","id":"x"}`:             BadOp,
			`{"op":"raise","id":"1"}`:              BadPriority,
			strings.Repeat("[", maxPayload):        Malformed,
			strings.Repeat("[", maxPayload+1):      TooLarge,
			`{"op":"acquire","id":"` + long + `"}`: BadID,
		} {
			before := g.counted("qosmutex_gateway_refused_total", string(want))
			c.raw(payload)
			for {
				a := <-c.answers
				if a.Outcome == Denied {
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
		if a := c.await("", Denied); a.Reason != BadID {
			t.Errorf("a long session: %+v", a)
		}
		c.ask(Renew, "1", "", Granted) // and nothing of it has changed anything
	})
}

var long = strings.Repeat("x", maxName+1)

func TestClientIsBounded(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		flood, polite := s.client("flood", "crane"), s.client("polite", "crane")
		defer flood.close()
		defer polite.close()
		polite.ask(Acquire, "1", "", Granted)
		for i := range maxLive {
			flood.send(Acquire, fmt.Sprint(i), fmt.Sprintf(`"resource":"r%d"`, i))
		}
		if a := flood.ask(Acquire, "one more", "", Denied); a.Reason != TooMany {
			t.Errorf("%+v", a)
		}
		for range 50 {
			for range 200 {
				flood.raw("x")
			}
			time.Sleep(10 * time.Millisecond)
		}
		polite.ask(Renew, "1", "", Granted)
		if n := g.counted("qosmutex_gateway_refused_total", string(TooFast)); n == 0 {
			t.Error("nothing was too fast")
		}
		if n := g.counted("qosmutex_gateway_refused_total", string(Malformed)); n > burst+2*rate {
			t.Errorf("%v messages of a client were read in a second", n)
		}
	})
}

// No payload ends the process, and what is accepted is within its bounds and means
// what was sent.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"op":"acquire","id":"1","session":"s","sent":12.5,"resource":"*","priority":-9223372036854775808,"wait_ms":0,"lease_ms":200}`,
		`{"op":"gone","session":"s"}`, `{"op":"raise","id":"1","priority":1e400}`, `{"OP":"query","id":"\ud800"}`, `[[[[`, `{"sent":"1"}`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := DecodeRequest(payload)
		if len(r.ID) > maxName || len(r.Session) > maxName || len(r.Sent) > maxSent {
			t.Fatalf("beyond bounds: %+v", r)
		}
		if _, bad := json.Marshal(Answer{ID: r.ID, Session: r.Session, Op: r.Op, Sent: r.Sent}); bad != nil {
			t.Fatalf("what is echoed cannot be sent: %v: %+v", bad, r)
		}
		if err != nil {
			return
		}
		if len(payload) > maxPayload || !utf8.Valid(payload) {
			t.Fatalf("accepted %q", payload)
		}
		if r.Lease < minLease || r.Lease > maxLease || r.Wait > maxWait || checkResource(r.Resource) != nil {
			t.Fatalf("beyond bounds: %+v", r)
		}
		if r.ID == "" && r.Op != Release && r.Op != Gone {
			t.Fatalf("no id: %+v", r)
		}
	})
}
