package pubsub

import (
	"strings"
	"testing"
	"time"
)

// followed are the announcements and presences that a participant is subscribed to.
func followed(p *Participant) (all []string) {
	for _, f := range p.main.Filters() {
		below := strings.TrimPrefix(f, p.root+"/")
		if strings.HasPrefix(below, "ep/") || strings.HasPrefix(below, "presence/") {
			all = append(all, below)
		}
	}
	return all
}

func expectFollowed(t *testing.T, when string, p *Participant, want ...string) {
	t.Helper()
	if got := strings.Join(followed(p), " "); got != strings.Join(want, " ") {
		t.Errorf("%s: %s follows %q, want %q", when, p.ID(), got, want)
	}
}

// A participant hears of those with whom something may match, for as long as that is so.
func TestAParticipantFollowsWhomItMayMatch(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b, c := d.join("a"), d.join("b"), d.join("c")
		q := QoS{Reliability: Reliable}
		expectFollowed(t, "at first", a)
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		other := writerOf(t, topicOf[pose](t, c, "p"), q)
		writerOf(t, topicOf[pose](t, c, "q"), q)
		north := q
		north.Partition = []string{"north"}
		readerOf(t, topicOf[pose](t, c, "p"), north)
		pass(time.Second)
		expectFollowed(t, "with a writer and no reader", a, "ep/p/+/+")
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 1)
		pass(time.Second)
		expectFollowed(t, "with a reader", a, "ep/p/+/+", "presence/b")
		expectFollowed(t, "with two writers", b, "ep/p/+/+", "presence/a", "presence/c")
		again := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 2)
		r.Close()
		pass(time.Second)
		expectFollowed(t, "with one reader of two", a, "ep/p/+/+", "presence/b")
		if err := other.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		expectFollowed(t, "without the other writer", b, "ep/p/+/+", "presence/a")
		again.Close()
		pass(time.Second)
		expectFollowed(t, "without readers", a, "ep/p/+/+")
		expectFollowed(t, "without anything", b)
		if peers, endpoints := b.directory.Known(); peers+endpoints > 0 {
			t.Errorf("%d participants and %d endpoints are remembered", peers, endpoints)
		}
	})
}

// What those who crashed had announced costs nobody anything once they are known to be
// dead, and they match again when they are back.
func TestEndpointsOfTheDeadAreForgotten(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a := d.join("a")
		q := QoS{Reliability: Reliable}
		r := readerOf(t, topicOf[pose](t, a, "p"), q)
		b, wire := d.joinBy("b")
		writerOf(t, topicOf[pose](t, b, "p"), q)
		if err := r.WaitMatched(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		wire.Cut()
		pass(5 * time.Second)
		expectFollowed(t, "after a crash", a, "ep/p/+/+")
		if peers, endpoints := a.directory.Known(); peers != 1 || endpoints != 1 { // its own
			t.Errorf("%d endpoints of %d participants are remembered", endpoints, peers)
		}
		late := d.join("late")
		other := readerOf(t, topicOf[pose](t, late, "p"), q)
		pass(5 * time.Second)
		expectFollowed(t, "that comes after a crash", late, "ep/p/+/+")
		wire.Restore()
		pass(time.Minute)
		for _, r := range []*Reader[pose]{r, other} {
			if n, _ := r.recv.Matches(); n != 1 {
				t.Errorf("%d writers match, one is back", n)
			}
		}
	})
}

// Who crashed and comes back has the broker forget what it had announced, where it is
// interested again.
func TestWhoCrashedClearsWhatItHadAnnounced(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		b, wire := d.joinBy("b")
		writerOf(t, topicOf[pose](t, b, "p"), QoS{})
		writerOf(t, topicOf[pose](t, b, "p"), QoS{})
		pass(time.Second)
		wire.Cut()
		pass(time.Minute)
		closeNow(t, b)
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{})
		pass(time.Second)
		all, err := d.join("observer").Endpoints(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || all[0].Kind != "reader" || !all[0].Alive {
			t.Errorf("the broker knows %+v, there is a reader", all)
		}
	})
}

// Where a broker returns what it retains, nobody is asked.
func TestNobodyIsAskedWhoIsTold(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		listener := d.join("listener")
		asked := 0
		for _, levels := range [][]string{{"ask", "+"}, {"ep", "+", "+", "ask"}} {
			if _, err := listener.SubscribeRaw(testContext(t), Main, levels, func(RawMessage) { asked++ }); err != nil {
				t.Fatal(err)
			}
		}
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		readerOf(t, topicOf[pose](t, b, "p"), QoS{})
		awaitReaders(t, w, 1)
		for range b.Peers(testContext(t)) {
			break
		}
		pass(time.Minute)
		if asked != 0 {
			t.Errorf("%d questions were put", asked)
		}
	})
}
