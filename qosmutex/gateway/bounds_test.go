package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
)

// What waits to be read is bounded, for all topics together, and kept in order.
func TestInboxIsBounded(t *testing.T) {
	limits := DefaultLimits()
	unread := newUnread(&limits)
	one, other := newInbox(&unread), newInbox(&unread)
	m := message{client: "c", payload: []byte(strings.Repeat("x", jsonlock.MaxRequest))}
	n := 0
	for one.put(m) == noLimit {
		n++
	}
	if n != max(limits.ClientRate, limits.ClientRequests) {
		t.Errorf("%d messages of one client", n)
	}
	if limit := other.put(m); limit != limitClientRate {
		t.Errorf("another topic has room for more: %d", limit)
	}
	for what, other := range map[string]message{
		"a release": {client: "c", ahead: true}, "the end of a session": {client: "c", decoded: &jsonlock.Request{}}, "what was taken before": {client: "c", again: true},
	} {
		if limit := one.put(other); limit != noLimit {
			t.Errorf("%s is not read after much else of its client: %d", what, limit)
		}
	}
	for m.client = "d"; one.put(m) == noLimit; n++ {
		m.client = fmt.Sprint("d", n/100)
	}
	if limit := other.put(m); limit != limitUnread || unread.bytes > limits.Unread || n < 5000 {
		t.Errorf("limit %d after %d messages of %d bytes", limit, n, unread.bytes)
	}
	for len(one.take()) > 0 {
	}
	if unread.bytes != 0 || len(unread.of) > 0 {
		t.Errorf("%d bytes of %d clients are unread in empty inboxes", unread.bytes, len(unread.of))
	}
	for i := range 3 * readAtOnce {
		one.put(message{client: fmt.Sprint(i)})
	}
	for i := 0; i < 3*readAtOnce; {
		<-one.news
		for _, m := range one.take() {
			if m.client != fmt.Sprint(i) {
				t.Fatalf("message %d is of %s", i, m.client)
			}
			i++
		}
	}
	one.put(m)
	one.clear()
	if unread.bytes != 0 {
		t.Errorf("%d bytes are unread in an inbox that was cleared", unread.bytes)
	}
}

// Releases and renewals are read before what those that wait repeat, which still is read.
func TestReleasesOvertake(t *testing.T) {
	b := newInbox(&unread{most: 1 << 20, each: 1 << 20, of: map[whose]int{}})
	heard := func(client, payload string) {
		m := message{client: client, payload: []byte(payload)}
		m.ahead = m.mayOvertake()
		b.put(m)
	}
	for range 100 {
		heard("waiter", `{"op":"acquire","id":"1"}`)
	}
	for range 100 {
		heard("holder", `{"op": "release", "id": "1"}`)
	}
	heard("waiter", `{"op":"release"}`)
	count := map[string]int{}
	for _, m := range b.take() {
		count[m.client]++
	}
	if count["holder"] != aheadAtOnce || count["waiter"] != readAtOnce-aheadAtOnce {
		t.Errorf("read at once: %v", count)
	}
	for range 100/aheadAtOnce + 1 {
		for _, m := range b.take() {
			count[m.client]++
		}
	}
	if count["holder"] != 100 || count["waiter"] == 101 {
		t.Errorf("read in all: %v", count)
	}
}

// A renewal does not overtake the acquire that it renews, nor what ends a session anything.
func TestWhatMayOvertake(t *testing.T) {
	c := &client{tickets: map[key]*ticket{{"s", "known"}: {}}}
	for _, test := range []struct {
		op   jsonlock.Op
		id   string
		want bool
	}{
		{jsonlock.Renew, "known", true},
		{jsonlock.Renew, "unread", false},
		{jsonlock.Release, "unread", true},
		{jsonlock.Release, "", false},
		{jsonlock.Acquire, "known", false},
	} {
		r := jsonlock.New(test.op)
		r.Session, r.ID = "s", test.id
		if got := new(active).overtakes(c, &r, nil); got != test.want {
			t.Errorf("%s %q: %v", test.op, test.id, got)
		}
	}
}

// Whoever wants a lock and is turned away is told; what others repeat by themselves is not
// answered, nor are more a second than a few.
func TestTurnedAwayIsTold(t *testing.T) {
	onSite(t, func(s *site) {
		c := s.client("esp32", "crane")
		defer c.close()
		gw := s.join("gw", s.broker.Dial)
		defer gw.Close(context.Background())
		g := bare(slog.New(slog.DiscardHandler))
		g.p, g.denied = gw, newBucket(time.Now(), 5)
		for i := range 100 {
			for _, op := range []jsonlock.Op{jsonlock.Renew, jsonlock.Acquire} {
				payload := fmt.Sprintf(`{"op":%q,"id":"%d","session":"s1","sent":%s}`, op, i, c.now())
				g.turnAway("crane", &message{client: "esp32", payload: []byte(payload), at: time.Now()}, jsonlock.Overload, "the server is busy")
			}
		}
		time.Sleep(time.Second)
		told := 0
		for range len(c.answers) {
			a := <-c.answers
			if told++; a.Outcome != jsonlock.Denied || a.Reason != jsonlock.Overload || a.Op != jsonlock.Acquire || a.Session != "s1" || a.ID == "" {
				t.Errorf("%+v", a)
			}
		}
		if told != 5 { // ten messages, every other an acquire
			t.Errorf("%d were told", told)
		}
	})
}

// An ended request is forgotten sooner where too many are remembered.
func TestMemoryOfEndedRequestsIsBounded(t *testing.T) {
	c := &client{tickets: map[key]*ticket{}}
	total := 0
	end := func(i, few int) {
		k := key{"s", fmt.Sprint(i)}
		tk := &ticket{key: k, client: c}
		c.tickets[k] = tk
		c.live++
		total += c.end(tk, time.Now(), few)
	}
	for i := range 1000 {
		end(i, maxEnded)
	}
	if total != maxEnded || len(c.tickets) != maxEnded {
		t.Errorf("%d are counted and %d remembered, want %d", total, len(c.tickets), maxEnded)
	}
	end(1000, fewEnded)
	if total != fewEnded || len(c.tickets) != fewEnded || c.live != 0 {
		t.Errorf("%d are counted and %d remembered, want %d", total, len(c.tickets), fewEnded)
	}
}

// The line of a resource is in the order of service, whatever comes and goes.
func TestLines(t *testing.T) {
	l := lines{}
	var all []*ticket
	for i := range 100 {
		tk := &ticket{resource: "hook", priority: int64(i % 7), arrived: uint64(i)}
		all = append(all, tk)
		l.join(tk)
	}
	other := &ticket{resource: "other"}
	l.join(other)
	for i, tk := range all {
		rank := 1
		for _, o := range all[i:] {
			if o != tk && inLine(o, tk) < 0 {
				rank++
			}
		}
		if r := l.position(tk); r != rank {
			t.Fatalf("ticket %d stands at %d, want %d", i, r, rank)
		}
		l.leave(tk)
		l.leave(tk)
	}
	l.leave(other)
	if len(l) != 0 {
		t.Errorf("left behind: %v", l)
	}
}

// Questions that wait until their lock is open are bounded, and those that have room are not
// driven out.
func TestQuestionsAreBounded(t *testing.T) {
	g := bare(slog.New(slog.DiscardHandler))
	s := &active{topic: &topic{g: g, name: "crane"}, opening: true, shows: map[clientKey]question{}}
	for i := range 2 * maxShows {
		s.showLater(&client{name: "esp32"}, &jsonlock.Request{ID: fmt.Sprint(i)}, time.Now())
	}
	if _, kept := s.shows[clientKey{"esp32", key{id: "0"}}]; !kept || len(s.shows) != maxShows {
		t.Errorf("%d questions wait, the first of them: %t", len(s.shows), kept)
	}
}
