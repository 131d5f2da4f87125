package qosmutex_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// scripted is a server that answers what a test wants.
type scripted struct {
	s        *site
	p        *pubsub.Participant
	requests chan jsonlock.Request
}

func (s *site) script() *scripted {
	s.Helper()
	g := &scripted{s, s.join("scripted", serving), make(chan jsonlock.Request, 100)}
	if _, err := g.p.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", "crane", "client", "shell", "request"}, func(m pubsub.RawMessage) {
		r, err := jsonlock.DecodeRequest(m.Payload)
		if err != nil {
			s.Errorf("%s: %v", m.Payload, err)
		}
		g.requests <- r
	}); err != nil {
		s.Fatal(err)
	}
	return g
}

func (g *scripted) close() { _ = g.p.Close(context.Background()) }

// answer publishes what a test makes of a request: %s are its id, session and sent.
func (g *scripted) answer(r jsonlock.Request, format string) {
	g.s.Helper()
	payload := strings.NewReplacer("ID", r.ID, "SESSION", r.Session, "SENT", string(r.Sent)).Replace(format)
	if err := g.p.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", "shell", "answer"}, []byte(payload), false); err != nil {
		g.s.Fatal(err)
	}
}

// locking asks for a resource in the background.
func (e *edge) locking(resource string) (got chan *qosmutex.Hold, failed chan error) {
	got, failed = make(chan *qosmutex.Hold, 1), make(chan error, 1)
	go func() {
		if h, err := e.Lock(context.Background(), resource); err == nil {
			got <- h
		} else {
			failed <- err
		}
	}()
	return got, failed
}

const good = `{"id":"ID","session":"SESSION","op":"acquire","outcome":"granted","resource":"a","fence":"7","priority":100,"sent":SENT,"valid_ms":3000,"gateway":"scripted"}`

func TestBadAnswersAreIgnoredAndCounted(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		registry := prometheus.NewRegistry()
		e := s.client("shell", "crane", qosmutex.WithMetrics(registry))
		defer e.close()
		got, _ := e.locking("a")
		r := <-g.requests
		bad := []string{
			`hello`, `{}`, `{"id":"ID","session":"SESSION","outcome":"granted"}`,
			strings.Replace(good, "SENT", "99999999", 1), // what was not sent yet
			strings.Replace(good, "SENT", "-1", 1),       // before it was first sent
			strings.Replace(good, "SENT", `"x"`, 1),
			strings.Replace(good, `"a"`, `"b"`, 1), // nobody asked for b
			strings.Replace(good, `"7"`, `"0"`, 1),
			strings.Replace(good, "3000", "-3000", 1),
		}
		for _, b := range bad {
			g.answer(r, b)
		}
		for _, other := range []string{ // of other processes of the same user, and of what is over
			strings.Replace(good, "SESSION", "other", 1), strings.Replace(good, `"ID"`, `"99999"`, 1),
		} {
			g.answer(r, other)
		}
		time.Sleep(100 * time.Millisecond)
		if len(got) > 0 {
			t.Fatal("a bad answer let it in")
		}
		g.answer(r, good)
		h := <-got
		if h.Fence() != 7 {
			t.Errorf("fence %d", h.Fence())
		}
		if n := ignored(t, registry); n != float64(len(bad)) {
			t.Errorf("%v answers were ignored, want %d", n, len(bad))
		}
		// Of what is said of a hold, nothing but its own end and renewal counts.
		for _, b := range []string{
			`{"id":"ID","session":"SESSION","outcome":"denied","reason":"bad_lease"}`, `{"id":"ID","session":"SESSION","outcome":"waiting","sent":SENT,"valid_ms":1}`,
		} {
			g.answer(r, b)
		}
		time.Sleep(100 * time.Millisecond)
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		g.answer(r, strings.Replace(good, `"7"`, `"8"`, 1)) // somebody was in between
		time.Sleep(100 * time.Millisecond)
		if err := h.Check(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("with another fence: %v", err)
		}
	})
}

func ignored(t testing.TB, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "qosmutex_client_ignored_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("not counted")
	return 0
}

// What a server is too busy to look at is asked again, for as long as it takes.
func TestBusyServerIsAskedAgain(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		e := s.client("shell", "crane")
		defer e.close()
		got, failed := e.locking("a")
		last := time.Now()
		for i, busy := range []string{
			`{"outcome":"denied","reason":"too_many","detail":"too many clients"}`,
			`{"outcome":"denied","reason":"too_fast"}`,
			`{"id":"ID","session":"SESSION","op":"acquire","outcome":"denied","reason":"overload","detail":"the server is busy: try again later"}`,
			`{"id":"ID","session":"SESSION","outcome":"denied","reason":"too_many"}`,
			`{"id":"ID","session":"SESSION","outcome":"denied","reason":"too_many"}`,
			`{"id":"ID","session":"SESSION","outcome":"denied","reason":"too_many"}`,
		} {
			r := <-g.requests
			if pause := time.Since(last); i > 0 && pause < 250*time.Millisecond || pause > time.Second {
				t.Errorf("asked again after %v", pause)
			}
			last = time.Now()
			g.answer(r, busy)
			time.Sleep(10 * time.Millisecond)
			if st := e.Status(); len(st.Waiting) != 1 || st.Waiting[0].Busy == "" {
				t.Errorf("%+v", st)
			}
		}
		g.answer(<-g.requests, good)
		select {
		case h := <-got:
			if h.Check() != nil {
				t.Error(h.Check())
			}
		case err := <-failed:
			t.Error(err)
		}
	})
}

func TestRefusedRequestsSayWhy(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		e := s.client("shell", "crane")
		defer e.close()
		for reason, want := range map[string]error{
			"busy": qosmutex.ErrFull, "undeclared": qosmutex.ErrUndeclared, "bad_resource": qosmutex.ErrInvalidName, "malformed": qosmutex.ErrUnsupported,
			"unattainable": qosmutex.ErrDeadlineUnattainable, "missed": qosmutex.ErrDeadlineMissed, "unsupported": qosmutex.ErrUnsupported, "of_later": qosmutex.ErrUnsupported,
		} {
			_, failed := e.locking("a")
			g.answer(<-g.requests, fmt.Sprintf(`{"id":"ID","session":"SESSION","op":"acquire","outcome":"denied","reason":%q,"detail":"for a test"}`, reason))
			if err := <-failed; !errors.Is(err, want) || reason != "undeclared" && !strings.Contains(err.Error(), `"a"`) { // the detail of that names it
				t.Errorf("%s: %v", reason, err)
			}
		}
	})
}

// What the server warns of is about the lock, so it is logged once however many names a program
// has, and the names of which it is noted are bounded.
func TestClientLogsOneWarningForALock(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		var log strings.Builder
		e := s.client("shell", "crane", qosmutex.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		defer e.close()
		for i := range 100 {
			name := fmt.Sprint("r", i)
			failed := make(chan error, 1)
			go func() {
				_, err := e.TryLock(context.Background(), name)
				failed <- err
			}()
			r := <-g.requests
			g.answer(r, `{"id":"ID","session":"SESSION","op":"acquire","outcome":"denied","reason":"busy","sent":SENT,"warning":"`+name+` is one of its own"}`)
			<-failed
		}
		if n := strings.Count(log.String(), "is one of its own"); n != 1 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
		if e.Warning("r0") == "" || e.Warning("r99") != "" {
			t.Errorf("noted: %q, %q", e.Warning("r0"), e.Warning("r99"))
		}
	})
}

// Deadlines and what the server warns of are a client's as they are a member's.
func TestClientHasDeadlines(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		e := s.client("shell", "crane")
		defer e.close()
		failed := make(chan error, 1)
		lock := func(within time.Duration) {
			_, err := e.Lock(context.Background(), "a", qosmutex.WithDeadline(time.Now().Add(within)), qosmutex.WithHold(2*time.Second))
			failed <- err
		}
		began := time.Now()
		go lock(3 * time.Second)
		r := <-g.requests
		if r.Within > 3*time.Second || r.Within < 2*time.Second || r.Hold != 2*time.Second {
			t.Errorf("%+v", r)
		}
		g.answer(r, `{"id":"ID","session":"SESSION","op":"acquire","outcome":"waiting","priority":100,"sent":SENT,"valid_ms":60000,"warning":"not what you think"}`)
		if err := <-failed; !errors.Is(err, qosmutex.ErrDeadlineMissed) || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if w := e.Warning("a"); w != "not what you think" {
			t.Errorf("Warning = %q", w)
		}
		go lock(-time.Second)
		if err := <-failed; !errors.Is(err, qosmutex.ErrDeadlineMissed) {
			t.Errorf("a deadline that is over: %v", err)
		}
		if _, err := e.Lock(context.Background(), "a", qosmutex.WithHold(-time.Second)); !errors.Is(err, qosmutex.ErrInvalidConfig) {
			t.Errorf("a hold of negative length: %v", err)
		}
	})
}

// A grant that was on its way for longer than it is valid is asked for again.
func TestGrantThatComesTooLateIsNotBelieved(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		e := s.client("shell", "crane")
		defer e.close()
		got, _ := e.locking("a")
		first := <-g.requests
		time.Sleep(4 * time.Second)
		for len(g.requests) > 0 {
			<-g.requests
		}
		g.answer(first, good)
		r := <-g.requests
		if len(got) > 0 || r.Op != jsonlock.Acquire || r.ID != first.ID {
			t.Fatalf("after a grant of the past: %+v", r)
		}
		g.answer(r, good)
		if h := <-got; h.Check() != nil {
			t.Error(h.Check())
		}
	})
}

// A root is replaced within some time that may be just what is left of a hold: the last renewal
// must not have been long before its end.
func TestHoldIsRenewedEverSoonerUntilItEnds(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.script()
		defer g.close()
		e := s.client("shell", "crane")
		got, _ := e.locking("a")
		g.answer(<-g.requests, good)
		h := <-got
		lost := h.Context().Done()
		var last time.Duration
		for renewals := 0; ; {
			select {
			case r := <-g.requests:
				if r.Op != jsonlock.Renew {
					t.Errorf("it said %v", r.Op)
				}
				last, renewals = h.Remaining(), renewals+1
				continue
			case <-lost:
			}
			if last > 100*time.Millisecond || renewals > 20 {
				t.Errorf("%d renewals, and the last was %v before the end", renewals, last)
			}
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Close(ctx)
		_ = e.p.Close(context.Background())
	})
}
