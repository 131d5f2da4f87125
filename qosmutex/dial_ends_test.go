package qosmutex_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

func TestKilledServerIsReplaced(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		one := s.serve("gw-1")
		defer one.stop()
		holder, waiter := s.client("holder", "crane"), s.client("waiter", "crane")
		defer holder.close()
		defer waiter.close()
		h := s.lock(holder.Client, "default")
		two := s.serve("gw-2")
		defer two.stop()
		got := make(chan *qosmutex.Hold)
		go func() { got <- s.lock(waiter.Client, "default") }()
		time.Sleep(5 * time.Second)
		if st := waiter.Status(); len(st.Waiting) != 1 || st.Waiting[0].Position != 1 || st.Server != "gw-1" {
			t.Errorf("%+v", st)
		}
		one.line.Cut()
		next := <-got
		if h.Check() == nil {
			t.Error("the hold of a killed server is valid while the next one is in")
		}
		if next.Fence() <= h.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), h.Fence())
		}
		if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		s.unlock(next)
		s.unlock(s.lock(holder.Client, "default"))
	})
}

// An orderly end tells everybody, and who waited asks the next one.
func TestWaitingOutlivesAServerThatEnds(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		one := s.serve("gw-1")
		e := s.client("shell", "crane")
		defer e.close()
		held := s.lock(crane, "default")
		got := make(chan *qosmutex.Hold)
		go func() { got <- s.lock(e.Client, "default") }()
		time.Sleep(5 * time.Second)
		one.stop()
		time.Sleep(30 * time.Second) // nobody serves: it goes on waiting
		two := s.serve("gw-2")
		defer two.stop()
		s.unlock(held)
		s.unlock(<-got)
	})
}

// An operator ends a request as the gateway's clients are ended: by the gone that names it.
func TestEvictedRequestEnds(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		w := s.tap("crane")
		defer w.close()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		held := s.lock(crane, "a")
		got := make(chan error, 1)
		go func() {
			_, err := e.Lock(context.Background(), "a")
			got <- err
		}()
		time.Sleep(time.Second)
		for len(w.requests) > 0 {
			<-w.requests
		}
		r, err := jsonlock.DecodeRequest((<-w.requests).Payload) // its renewal
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.Op = jsonlock.Gone
		payload, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.p.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", "shell", "request"}, payload, false); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, qosmutex.ErrCanceled) || !strings.Contains(err.Error(), "operator") {
			t.Errorf("evicted: %v", err)
		}
		s.unlock(held)
	})
}
