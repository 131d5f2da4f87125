package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/internal/limited"
	"padme/qosmutex/jsonlock"
	"padme/tests/capture"
)

// bare is a gateway of which nothing runs.
func bare(log *slog.Logger) *gateway {
	o, _ := optionsOf([]Option{WithLogger(log)})
	return newGateway(o, &qosmutex.Server{})
}

// opened is a lock topic that nobody serves.
func (g *gateway) opened(name, by string) *topic {
	t := newTopic(g, name)
	t.by, t.end = by, func() {}
	t.live.Store(1)
	g.topics[name] = t
	g.named[by]++
	return t
}

// says hands a message to a gateway of which nothing runs.
func (g *gateway) says(lock, payload string) {
	g.heard(context.Background(), pubsub.RawMessage{Levels: []string{"lock", lock, "client", "flood", "request"}, Payload: []byte(payload)})
}

// floods are ways to go beyond each limit: what sets one up returns how to do so once more, by
// client flood in lock crane.
var floods = map[int]struct {
	limits Limits
	lock   string // crane, if it is not another one
	most   int
	begin  func(s *site, flood, other *foreign) (again func()) // at a gateway with these limits
	bare   func(g *gateway) (again func())                     // or at one of which nothing runs
}{
	limitRequests: {limits: Limits{Requests: 2}, most: 2, begin: func(_ *site, flood, other *foreign) func() {
		other.ask(jsonlock.Acquire, "1", `"resource":"a","lease_ms":600000`, jsonlock.Granted)
		other.ask(jsonlock.Acquire, "2", `"resource":"b","lease_ms":600000`, jsonlock.Granted)
		return func() { flood.ask(jsonlock.Acquire, "x", "", jsonlock.Denied) }
	}},
	limitClientRequests: {limits: Limits{ClientRequests: 2}, most: 2, begin: holdsTwo},
	limitLockRequests:   {limits: Limits{ClientRequestsPerLock: 2}, most: 2, begin: holdsTwo},
	limitClientRate: {limits: Limits{ClientRate: 10}, most: 10, begin: func(_ *site, flood, _ *foreign) func() {
		flood.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		return func() { flood.many(30, `{"op":"query","id":"1","session":"s1","sent":1}`) }
	}},
	limitShare: {limits: Limits{ClientRate: 10}, most: 30, begin: func(_ *site, flood, _ *foreign) func() {
		flood.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		return func() { flood.many(200, `{"op":"query","id":"1","session":"s1","sent":1}`) }
	}},
	limitNames: {limits: Limits{ClientNames: 1, ClientRequestsPerLock: 2}, most: 1, begin: func(_ *site, flood, _ *foreign) func() {
		flood.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		flood.ask(jsonlock.Release, "1", "", jsonlock.Released)
		n := 0
		return func() {
			for range 200 {
				n++
				flood.raw(fmt.Sprintf(`{"op":"acquire","id":"n%d","resource":"n%d","wait_ms":0,"sent":1}`, n, n))
				time.Sleep(10 * time.Millisecond)
				flood.raw(fmt.Sprintf(`{"op":"release","id":"n%d","sent":1}`, n)) // which must not overtake it
			}
		}
	}},
	limitClients: {limits: Limits{Requests: 1}, most: 1, begin: func(_ *site, flood, other *foreign) func() {
		other.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		return func() { flood.ask(jsonlock.Acquire, "x", "", jsonlock.Denied) }
	}},
	limitUnknown: {most: unknownRate, begin: func(_ *site, flood, _ *foreign) func() {
		flood.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		return func() {
			flood.many(2*unknownRate+2*unknownPool+100, `{"op":"query","id":"none","session":"s1","sent":1}`)
		}
	}},
	limitUnread: {most: 16 << 20, bare: func(g *gateway) func() {
		t := g.opened("crane", "flood")
		t.inbox.unread.bytes = g.limits.Unread - 1
		return func() { g.says("crane", `{"op":"renew","id":"1"}`) }
	}},
	limitTopics: {most: 1, bare: func(g *gateway) func() {
		g.opened("a", "other")
		return func() { g.says("crane", `{"op":"renew","id":"1"}`) }
	}},
	limitClientTopics: {most: 1, bare: func(g *gateway) func() {
		g.opened("a", "flood")
		return func() { g.says("crane", `{"op":"renew","id":"1"}`) }
	}},
	limitEnds: {most: endRate / 256, lock: RoleTopic, bare: func(g *gateway) func() {
		for range 256 {
			g.known["flood"] = append(g.known["flood"], newTopic(g, "crane"))
		}
		return func() {
			for range endBurst/256 + 1 {
				g.says(RoleTopic, `{"op":"gone","session":"s1"}`)
			}
			for _, t := range g.known["flood"] {
				t.inbox.clear()
			}
		}
	}},
	limitDenials: {most: deniedRate, bare: func(g *gateway) func() {
		return func() {
			for range 2*deniedRate + 1 {
				g.turnAway("crane", &message{client: "flood", at: time.Now()}, jsonlock.Overload, "the server is busy")
			}
		}
	}},
	limitQuestions: {most: maxShows, bare: func(g *gateway) func() {
		s := &active{topic: newTopic(g, "crane"), opening: true, shows: map[clientKey]question{}}
		n := 0
		return func() {
			for range maxShows + 1 {
				n++
				s.showLater(&client{name: "flood"}, &jsonlock.Request{ID: fmt.Sprint(n)}, time.Now())
			}
		}
	}},
}

// holdsTwo asks for a third.
func holdsTwo(_ *site, flood, _ *foreign) func() {
	flood.ask(jsonlock.Acquire, "1", `"resource":"a","lease_ms":600000`, jsonlock.Granted)
	flood.ask(jsonlock.Acquire, "2", `"resource":"b","lease_ms":600000`, jsonlock.Granted)
	return func() { flood.ask(jsonlock.Acquire, "x", "", jsonlock.Denied) }
}

func (c *foreign) many(n int, payload string) {
	for range n {
		c.raw(payload)
	}
	time.Sleep(100 * time.Millisecond)
}

// Each refusal by a limit is counted, and at most once a minute a line names the limit, its value,
// the client and what to do. Each option has its effect: the limit is the one that it gives.
func TestEveryLimitIsLogged(t *testing.T) {
	for limit := range limitsEnd {
		flood, known := floods[limit]
		if !known {
			t.Errorf("nothing goes beyond %s", limits[limit].Name)
			continue
		}
		t.Run(limits[limit].Name, func(t *testing.T) {
			onSite(t, func(s *site) {
				var log capture.Text
				logger := log.Logger()
				var again func()
				var count func() uint64
				if flood.bare != nil {
					var g *gateway
					g = bare(slog.New(watched{logger.Handler(), func() {
						for _, mu := range []*sync.Mutex{&g.mu, &g.rates.mu, &g.live.mu} {
							if !mu.TryLock() {
								t.Error("it logs while it holds a mutex")
								continue
							}
							mu.Unlock()
						}
					}}))
					again, count = flood.bare(g), func() uint64 { return countOf(g.reached, limit) }
				} else {
					g := s.gateway("gw", WithLogger(logger), WithLimits(flood.limits))
					defer g.stop()
					f, other := s.client("flood", "crane"), s.client("other", "crane")
					defer f.close()
					defer other.close()
					again = flood.begin(s, f, other)
					count = func() uint64 { return uint64(g.counted("qosmutex_gateway_limited_total", limits[limit].Name)) }
				}
				lock := flood.lock
				if lock == "" {
					lock = "crane"
				}
				line := fmt.Sprintf(`level=WARN msg="limit reached" limit=%s most=%d client=flood lock=%s remedy=`, limits[limit].Name, flood.most, lock)
				if count() != 0 {
					t.Fatalf("it is beyond the limit from the start: %s", log.String())
				}
				for i, want := range []int{1, 1, 2} {
					if i == 2 {
						time.Sleep(time.Minute)
					}
					before := count()
					again()
					if count() == before {
						t.Fatalf("round %d: nothing is counted: %s", i, log.String())
					}
					if n := strings.Count(log.String(), line); n != want {
						t.Fatalf("round %d: %d lines, not %d: %s\n%s", i, n, want, line, log.String())
					}
				}
			})
		})
	}
}

// watched calls a function before each line of a log.
type watched struct {
	slog.Handler
	before func()
}

func (w watched) Handle(ctx context.Context, r slog.Record) error {
	w.before()
	return w.Handler.Handle(ctx, r)
}

func countOf(l *limited.Log, limit int) (count uint64) {
	l.Each(func(name string, n uint64) {
		if name == limits[limit].Name {
			count = n
		}
	})
	return count
}

// Limits that make no sense are refused by name.
func TestLimitsAreChecked(t *testing.T) {
	for field, l := range map[string]Limits{
		"Requests": {Requests: -1}, "ClientRequests": {ClientRequests: 1 << 21}, "ClientRequestsPerLock": {ClientRequestsPerLock: -5},
		"ClientRate": {ClientRate: 3}, "ClientNames": {ClientNames: 1 << 30}, "Unread": {Unread: 1000},
	} {
		err := l.Check()
		var of *LimitError
		if !errors.As(err, &of) || of.Field != field || !errors.Is(err, qosmutex.ErrInvalidConfig) || !strings.Contains(err.Error(), "Limits."+field+" is ") {
			t.Errorf("%+v: %v", l, err)
		}
		if _, err := optionsOf([]Option{WithLimits(l)}); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	if err := (Limits{}).Check(); err != nil {
		t.Error(err)
	}
}

// What a limit is called is what its flag is called, or the documentation.
func TestLimitsHaveRemedies(t *testing.T) {
	names := map[string]bool{}
	for _, l := range limits {
		if l.Name == "" || l.Remedy == "" || names[l.Name] {
			t.Errorf("%+v", l)
		}
		names[l.Name] = true
	}
	if len(limits) != limitsEnd {
		t.Errorf("%d of %d limits: %v", len(limits), limitsEnd, slices.Sorted(maps.Keys(names)))
	}
}

// A gateway that stands by tells no client that too many of its messages wait: another one reads them.
func TestWhoStandsByTurnsNobodyAway(t *testing.T) {
	for active, told := range map[bool]int{false: 0, true: 1} {
		g, answers := bare(slog.New(slog.DiscardHandler)), 0
		g.answers.publish = func(*answer) error { answers++; return nil }
		crane := g.opened("crane", "flood")
		crane.active.Store(active)
		for crane.inbox.put(message{client: "flood"}) == noLimit {
		}
		g.says("crane", `{"op":"acquire","id":"1","session":"s"}`)
		if answers != told {
			t.Errorf("active %v: %d answers", active, answers)
		}
	}
}
