package gateway

import (
	"fmt"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
)

// enter is what the clients of docs/clients.md do: they repeat their acquire until
// they are inside, under another id once one has ended.
func (c *foreign) enter(stop <-chan struct{}, granted chan<- jsonlock.Answer) {
	n := 1
	for {
		c.send(jsonlock.Acquire, fmt.Sprint(n), `"lease_ms":600000`)
		again := time.NewTimer(300 * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case a := <-c.answers:
				switch {
				case a.ID != fmt.Sprint(n):
				case a.Outcome == jsonlock.Granted:
					again.Stop()
					granted <- a
					return
				case a.Outcome == jsonlock.Lost:
					n++
					waiting = false
				}
			case <-again.C:
				waiting = false
			case <-stop:
				return
			}
		}
		again.Stop()
	}
}

// A client that is told that its request is over takes another id. Its gateway's
// successor must not serve the old one, of which it has heard as well: nobody would
// release it.
func TestAnEndedRequestIsNotTakenOver(t *testing.T) {
	onSite(t, func(s *site) {
		one := s.gateway("gw-1")
		c, d := s.client("esp32", "crane"), s.client("other", "crane")
		defer c.close()
		defer d.close()
		d.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		two := s.gateway("gw-2")
		defer two.stop()
		stop, granted := make(chan struct{}), make(chan jsonlock.Answer, 1)
		defer close(stop)
		go c.enter(stop, granted)
		time.Sleep(20 * time.Second)
		ended := time.Now()
		one.stop()
		select {
		case a := <-granted:
			if a.Gateway != "gw-2" {
				t.Errorf("%+v", a)
			}
		case <-time.After(time.Minute):
			t.Errorf("nobody is inside %v after the first gateway ended", time.Since(ended))
		}
	})
}
