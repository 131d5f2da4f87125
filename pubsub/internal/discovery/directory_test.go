package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
	"padme/tests/capture"
)

// nowhere is a network on which nothing comes; it remembers what was sent.
type nowhere struct {
	mu    sync.Mutex
	put   []connection.Packet
	sent  []wire.Announcement
	asked []string // topics
}

func (n *nowhere) Put(p connection.Packet) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put = append(n.put, p)
	return nil
}

func (n *nowhere) Post(_ string, message []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var e wire.Envelope
	switch err := wire.Parse(message, &e); {
	case err != nil:
	case e.Kind == wire.KindAnnounce:
		a, _ := wire.ParseAnnouncement(e.Body)
		n.sent = append(n.sent, a)
	case e.Kind == wire.KindWho:
		n.asked = append(n.asked, string(e.Body))
	}
}

func (n *nowhere) Start(f func()) bool             { go f(); return true }
func (n *nowhere) End(error)                       {}
func (n *nowhere) Drop(drop.Reason, string, error) {}
func (n *nowhere) CaughtUp(context.Context) error  { return nil }

func (n *nowhere) Connected(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (n *nowhere) Subscribe(context.Context, string, func(string, []byte, bool)) (func(), error) {
	return func() {}, nil
}

// told is an endpoint that writes down what it is told.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (o *told) add(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line)
}

// read returns what it was told since the last call.
func (o *told) read() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	return lines
}

func (o *told) Matched(e *Remote, _ uint64) { o.add("matched " + e.GUID.Endpoint) }
func (o *told) Updated(e *Remote, _ uint64) { o.add("updated " + e.GUID.Endpoint) }
func (o *told) Unmatched(g wire.GUID, died bool) {
	o.add(fmt.Sprint("unmatched ", g.Endpoint, " died ", died))
}

func (o *told) EndedBefore(g wire.GUID, last uint64) {
	o.add(fmt.Sprint("ended ", g.Endpoint, " before ", last))
}

func (o *told) Parted(g wire.GUID, ours bool) {
	o.add(fmt.Sprint("parted ", g.Endpoint, " ours ", ours))
}

func (o *told) Mismatched(e *Remote, why string) {
	o.add("mismatched " + e.GUID.Endpoint + " " + why)
}
func (o *told) Settle(func(wire.GUID) bool) {}
func (o *told) End()                        { o.add("end") }

// alone runs f with the directory of a participant "a" of a network without others, in
// virtual time.
func alone(t *testing.T, f func(t *testing.T, d *Directory, n *nowhere)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		n := &nowhere{}
		d := New(Config{ID: "a", Level: "a", Root: "r", Incarnation: 1, Log: slog.New(slog.DiscardHandler), Context: ctx}, n)
		d.Connecting()
		if err := d.own(); err != nil {
			t.Fatal(err)
		}
		f(t, d, n)
		end()
		synctest.Wait()
	})
}

// announcement is that of an endpoint of topic "p".
func announcement(kind string, epoch, reliability, change int) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"topic":"p","schema":"1","incarnation":"2","epoch":"%d","qos":{"reliability":%d},"change":%d}`, kind, epoch, reliability, change)
}

func presence(alive bool, epoch int) []byte {
	return fmt.Appendf(nil, `{"alive":%v,"incarnation":"2","epoch":"%d"}`, alive, epoch)
}

func joined(t *testing.T, d *Directory, kind string) (*Local, *told) {
	t.Helper()
	var o told
	a := Announcement{Kind: kind, Topic: "p", Schema: 1, QoS: Offer{Reliability: 1}}
	l, err := d.Join(t.Context(), kind[:1], a, func(*Local) Endpoint { return &o })
	if err != nil {
		t.Fatal(err)
	}
	return l, &o
}

func expectTold(t *testing.T, when string, o *told, want ...string) {
	t.Helper()
	if got := o.read(); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

// Two match when both are known and the participant of the other lives, whichever of its
// announcement and its presence comes first.
func TestEndpointsMatchWhenTheirParticipantLives(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		l, o := joined(t, d, "reader")
		d.announcementCame("ep/p/b/w1", announcement("writer", 4, 1, 0), true)
		synctest.Wait()
		expectTold(t, "without a presence", o)
		d.presenceCame("presence/b", presence(true, 3), true)
		expectTold(t, "with that of an earlier connection", o)
		d.presenceCame("presence/b", presence(true, 4), false)
		expectTold(t, "with a presence", o, "matched w1")
		d.announcementCame("ep/p/b/w2", announcement("writer", 4, 0, 0), false)
		expectTold(t, "with one that offers less", o, "parted w2 ours false", "mismatched w2 RELIABILITY")
		d.announcementCame("ep/p/b/w1", announcement("writer", 4, 1, 1), false)
		expectTold(t, "when its policies have changed", o, "updated w1")
		d.presenceCame("presence/b", presence(false, 3), false)
		expectTold(t, "with the death of an earlier connection", o)
		d.presenceCame("presence/b", presence(false, 4), false)
		expectTold(t, "with a death", o, "unmatched w1 died true")
		if p, e := d.Known(); p+e > 0 {
			t.Errorf("%d participants and %d endpoints are remembered, all are dead", p, e)
		}
		d.Remove(l)
		expectTold(t, "when it is closed", o, "end")
	})
}

// What a participant withdraws is closed, not dead.
func TestAWithdrawalIsNoDeath(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := joined(t, d, "writer")
		d.announcementCame("ep/p/b/r1", announcement("reader", 4, 1, 0), false)
		synctest.Wait()
		d.presenceCame("presence/b", presence(true, 4), false)
		d.announcementCame("ep/p/b/r1", nil, false)
		expectTold(t, "then", o, "matched r1", "unmatched r1 died false")
	})
}

// A broker may deliver what it retained after what has just replaced it.
func TestWhatIsOvertakenIsNotBelieved(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := joined(t, d, "reader")
		for _, epoch := range []int{4, 3} {
			d.announcementCame("ep/p/b/w1", announcement("writer", epoch, 1, 0), false)
			synctest.Wait()
			d.presenceCame("presence/b", presence(true, epoch), false)
		}
		expectTold(t, "then", o, "matched w1")
		g := wire.GUID{Participant: "b", Incarnation: 2, Endpoint: "w1"}
		if e := d.Find("p", g); e == nil || e.Epoch != 4 {
			t.Errorf("believed: %+v", e)
		}
	})
}

func TestAStaleDeathIsIgnored(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		d.following = true
		for _, epoch := range []int{5, 6} {
			d.presenceCame("presence/b", presence(true, epoch), false)
		}
		d.presenceCame("presence/b", presence(false, 5), false)
		if !d.peers["b"].Alive {
			t.Fatal("the will of an old connection killed the present one")
		}
		d.presenceCame("presence/b", presence(false, 6), false)
		if d.peers["b"].Alive {
			t.Fatal("a death was ignored")
		}
	})
}

// One participant cannot take the room for the endpoints of all.
func TestOneParticipantDoesNotFillTheEndpoints(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		if _, err := d.Follow(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		for i := range maxEndpoints + 1 {
			d.announcementCame(fmt.Sprintf("ep/p/stranger/w%d", i), announcement("writer", 3, 1, 0), false)
		}
		d.announcementCame("ep/p/other/w1", announcement("writer", 3, 1, 0), false)
		if d.Find("p", wire.GUID{Participant: "other", Incarnation: 2, Endpoint: "w1"}) == nil {
			t.Error("there is no room for others")
		}
		if _, n := d.Known(); n != len(d.peers["stranger"].endpoints)+1 {
			t.Errorf("%d are counted, there are %d", n, len(d.peers["stranger"].endpoints)+1)
		}
	})
}

// When all room is taken, the dead make some, also the one that comes back.
func TestTheDeadMakeRoom(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		if _, err := d.Follow(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		for i := range maxEndpoints / maxEndpointsOfOne {
			for k := range maxEndpointsOfOne {
				d.announcementCame(fmt.Sprintf("ep/p/dead%d/w%d", i, k), announcement("writer", 3, 1, 0), false)
			}
		}
		time.Sleep(2 * sweepPause)
		d.announcementCame("ep/p/dead0/again", announcement("writer", 3, 1, 0), false)
		if p, e := d.Known(); p != 1 || e != 1 || d.peers["dead0"] == nil {
			t.Errorf("%d participants with %d endpoints are remembered, one is new", p, e)
		}
	})
}

// Whoever announces more endpoints than are remembered is named in the log once a minute, and so is
// the one that comes when there is room for none.
func TestTooManyEndpointsAreTold(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		var log capture.Text
		d.Log = log.Logger()
		joined(t, d, "writer")
		announces := func(from string, begin, n int) {
			for k := range n {
				d.announcementCame(fmt.Sprintf("ep/p/%s/w%d", from, begin+k), announcement("reader", 3, 1, 0), false)
			}
			synctest.Wait()
		}
		logged := func(want int, line string) {
			t.Helper()
			if n := strings.Count(log.String(), `msg="limit reached" `+line+` remedy="have`); n != want {
				t.Errorf("%d lines, not %d: %s\n%s", n, want, line, log.String())
			}
		}
		announces("mallory", 0, maxEndpointsOfOne)
		if log.String() != "" {
			t.Errorf("as many as may be are told: %s", log.String())
		}
		for i, want := range []int{1, 1, 2} {
			if i == 2 {
				time.Sleep(time.Minute)
			}
			announces("mallory", maxEndpointsOfOne, 3)
			logged(want, "limit=endpoints-of-a-participant most=4096 from=mallory")
		}
		d.mu.Lock()
		d.size = maxEndpoints
		d.swept = time.Now()
		d.mu.Unlock()
		announces("late", 0, 3)
		announces("later", 0, 3)
		logged(1, "limit=endpoints most=65536 from=mallory")
		logged(0, "limit=endpoints most=65536 from=late")
	})
}

// What is told is what was announced: nothing is marshaled while everything else waits.
func TestAnAnswerIsWhatWasAnnounced(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, n *nowhere) {
		l, _ := joined(t, d, "writer")
		announced := n.put[len(n.put)-1].Payload
		l.Type = "another"
		d.Asked("b", "p")
		if len(n.sent) != 2 || string(n.sent[0].Payload) != string(announced) || !n.sent[1].All[l.Name] {
			t.Errorf("told %+v", n.sent)
		}
	})
}

// Participants that know nothing of these policies announce none, and understand
// who announces none.
func TestAnAbsentPolicyIsTheDefault(t *testing.T) {
	const before = `{"kind":"writer","topic":"t","type":"int","codec":"msgpack","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1,"durability":1}}`
	e, err := Parse("p", "w1", []byte(before))
	if err != nil || !reflect.DeepEqual(e.QoS, Offer{Reliability: 1, Durability: 1}) {
		t.Fatalf("%+v, %v", e, err)
	}
	if now, err := json.Marshal(e.Announcement); err != nil || string(now) != before {
		t.Errorf("%s, %v", now, err)
	}
	e.QoS = Offer{Deadline: 1, Liveliness: 2, Lease: 2, Exclusive: true, Strength: -3}
	b, err := json.Marshal(e.Announcement)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Parse("p", "w1", b); err != nil || !reflect.DeepEqual(back.QoS, e.QoS) {
		t.Errorf("%s came back as %+v, %v", b, back, err)
	}
	for _, bad := range []string{`"deadline":-1`, `"lease":-1`, `"liveliness":-1`, `"liveliness":"manual"`} {
		if _, err := Parse("p", "w1", []byte(`{"kind":"writer","qos":{`+bad+`}}`)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func FuzzAnnouncements(f *testing.F) {
	f.Add([]byte(`{"kind":"writer","topic":"t","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1}}`))
	f.Add([]byte(`{"alive":true,"incarnation":"1","epoch":"2","since":"2024-01-01T00:00:00Z"}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Parse("p", "w1", b)
		_, _ = ParsePresence("p", b)
	})
}
