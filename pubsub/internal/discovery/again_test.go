package discovery

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub/internal/wire"
)

// met has a reader of ours match two writers of participant "b".
func met(t *testing.T, d *Directory) (*Local, *told) {
	t.Helper()
	l, o := joined(t, d, "reader")
	for _, name := range []string{"w1", "w2"} {
		d.announcementCame("ep/p/b/"+name, announcement("writer", 4, 1, 0), false)
		synctest.Wait()
		d.presenceCame("presence/b", presence(true, 4), false)
	}
	expectTold(t, "when they meet", o, "matched w1", "matched w2")
	time.Sleep(2 * doubtAfter)
	synctest.Wait()
	return l, o
}

// listed is the answer of "b" that it has one writer.
func listed(d *Directory, epoch int, name string) {
	a := wire.Announcement{Payload: presence(true, epoch), Topic: "p", Listed: true, All: map[string]bool{name: true}}
	var e wire.Envelope
	if wire.Parse(a.Encode(2), &e) == nil {
		d.Message("b", &e)
	}
}

// expectToldAll is expectTold in any order.
func expectToldAll(t *testing.T, when string, o *told, want ...string) {
	t.Helper()
	got := o.read()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

func expectAsked(t *testing.T, when string, n *nowhere, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.asked)
	if strings.Join(n.asked, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: asked in %q, want %q", when, n.asked, want)
	}
	n.asked = nil
}

// Two births of one incarnation are one life, and what was announced stays until it is
// announced again, whichever comes first.
func TestABirthThatFollowsABirthIsNoDeath(t *testing.T) {
	for _, first := range []string{"birth", "announcement"} {
		t.Run(first, func(t *testing.T) {
			alone(t, func(t *testing.T, d *Directory, n *nowhere) {
				l, o := met(t, d)
				for i, epoch := range []int{5, 6} {
					announce := func() {
						d.announcementCame("ep/p/b/w1", announcement("writer", epoch, 1, 0), false)
						d.announcementCame("ep/p/b/w2", announcement("writer", epoch, 1, i), false)
					}
					if first == "announcement" {
						announce()
					}
					d.presenceCame("presence/b", presence(true, epoch), false)
					if first == "birth" {
						announce()
					}
					expectTold(t, "after a birth", o, "updated w1", "updated w2")
				}
				if got := d.Matches(l); len(got) != 2 {
					t.Errorf("matches %v", got)
				}
				time.Sleep(2 * forgetAfter)
				synctest.Wait()
				expectTold(t, "later", o)
				expectAsked(t, "later", n)
			})
		})
	}
}

// Several births before anything is announced are one life, too.
func TestBirthsWithoutAnnouncements(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, n *nowhere) {
		_, o := met(t, d)
		for epoch := 5; epoch < 50; epoch++ {
			d.presenceCame("presence/b", presence(true, epoch), false)
			time.Sleep(doubtAfter - 1)
			synctest.Wait()
		}
		expectTold(t, "after many births", o)
		expectAsked(t, "after many births", n)
		d.presenceCame("presence/b", presence(false, 48), false)
		d.presenceCame("presence/b", presence(false, 4), false)
		expectTold(t, "with the death of an earlier connection", o)
		d.presenceCame("presence/b", presence(false, 49), false)
		expectToldAll(t, "with a death", o, "unmatched w1 died true", "unmatched w2 died true")
	})
}

// What changes while its participant is away is compared when it is announced again.
func TestWhatChangesWhileAwayIsCompared(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", presence(true, 5), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 5, 0, 1), false)
		expectTold(t, "with one that offers less", o, "parted w1 ours false", "mismatched w1 RELIABILITY")
	})
}

// Who does not announce something again is asked, and what it does not name it has closed.
func TestWhatIsNotAnnouncedAgainIsAskedFor(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, n *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", presence(true, 5), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 5, 1, 0), false)
		expectTold(t, "at once", o, "updated w1")
		time.Sleep(doubtAfter)
		synctest.Wait()
		expectAsked(t, "soon", n, "p")
		expectTold(t, "while it is asked", o)
		listed(d, 5, "w1")
		expectTold(t, "after the answer", o, "unmatched w2 died false")
		time.Sleep(2 * forgetAfter)
		synctest.Wait()
		expectAsked(t, "later", n)
		expectTold(t, "later", o)
	})
}

// Whatever is missing is asked for at once, in each topic.
func TestWhatIsMissingIsAskedForInEachTopic(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, n *nowhere) {
		_, o := met(t, d)
		a := Announcement{Kind: "reader", Topic: "q", Schema: 1}
		if _, err := d.Join(t.Context(), "r", a, func(*Local) Endpoint { return o }); err != nil {
			t.Fatal(err)
		}
		d.announcementCame("ep/q/b/w9", []byte(`{"kind":"writer","topic":"q","schema":"1","incarnation":"2","epoch":"4"}`), false)
		d.presenceCame("presence/b", presence(true, 5), false)
		time.Sleep(doubtAfter)
		synctest.Wait()
		expectAsked(t, "soon", n, "p", "q")
	})
}

// Who neither announces something again nor answers what there is keeps nobody waiting for
// ever, also if the birth is missing that belongs to an announcement.
func TestWhatIsNotAnnouncedAgainIsGone(t *testing.T) {
	for _, birth := range []bool{true, false} {
		alone(t, func(t *testing.T, d *Directory, n *nowhere) {
			_, o := met(t, d)
			if birth {
				d.presenceCame("presence/b", presence(true, 5), false)
				d.announcementCame("ep/p/b/w1", announcement("writer", 5, 1, 0), false)
			} else {
				d.announcementCame("ep/p/b/w2", announcement("writer", 5, 1, 0), false)
			}
			o.read()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			expectTold(t, "while it is asked", o)
			expectAsked(t, "while it is asked", n, "p", "p", "p", "p")
			time.Sleep(6 * time.Second)
			synctest.Wait()
			expectTold(t, "when it was asked often enough", o, "unmatched w2 died true")
		})
	}
}

// Who is silent on a new connection of ours is dead, whatever the broker keeps of it.
func TestWhoIsSilentIsNotAwaited(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.Connecting()
		d.Changed(true, true)
		d.announcementCame("ep/p/b/w1", announcement("writer", 5, 1, 0), true)
		expectTold(t, "when the broker has another announcement", o, "updated w1")
		time.Sleep(forgetAfter + doubtAfter)
		synctest.Wait()
		expectToldAll(t, "when nothing else has come", o, "unmatched w1 died true", "unmatched w2 died true")
	})
}

// Another process under the id is not the same one.
func TestAnotherIncarnationIsNoReturn(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", []byte(`{"alive":true,"incarnation":"9","epoch":"9"}`), false)
		expectToldAll(t, "then", o, "unmatched w1 died true", "unmatched w2 died true")
	})
}

// A participant that came back, and died, while we were away is dead, whichever of what it
// leaves behind comes first.
func TestADeathAfterAReturnIsADeath(t *testing.T) {
	for _, first := range []string{"death", "announcement"} {
		t.Run(first, func(t *testing.T) {
			alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
				_, o := met(t, d)
				die := func() { d.presenceCame("presence/b", presence(false, 5), true) }
				if first == "death" {
					die()
					expectTold(t, "before its birth is known", o) // it may never have been born
				}
				d.announcementCame("ep/p/b/w1", announcement("writer", 5, 1, 0), true)
				if first == "announcement" {
					expectTold(t, "before the death", o, "updated w1")
					die()
				}
				expectToldAll(t, "then", o, "unmatched w1 died true", "unmatched w2 died true")
				if p, e := d.Known(); p+e > 0 {
					t.Errorf("%d participants and %d endpoints are remembered, all are dead", p, e)
				}
			})
		})
	}
}

// A death without a birth is forgotten with the next birth.
func TestADeathWithoutABirthIsNone(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", presence(false, 5), false)
		d.presenceCame("presence/b", presence(true, 6), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 5, 1, 0), false)
		d.announcementCame("ep/p/b/w2", announcement("writer", 6, 1, 0), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 6, 1, 0), false)
		expectTold(t, "when it is back", o, "updated w1", "updated w2", "updated w1")
	})
}

// The death of a rival that has announced something is none of the participant itself.
func TestTheDeathOfARivalIsNone(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", []byte(`{"alive":false,"incarnation":"9","epoch":"9"}`), false)
		d.announcementCame("ep/p/b/w3", []byte(`{"kind":"writer","topic":"p","schema":"1","incarnation":"9","epoch":"9"}`), false)
		expectTold(t, "then", o)
	})
}

// Announcements without their birth do not put off the end of the wait for it.
func TestAnnouncementsDoNotReplaceABirth(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		for epoch := range 4 {
			o.read()
			d.announcementCame("ep/p/b/w1", announcement("writer", 5+epoch, 1, 0), false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		expectTold(t, "after 40 s", o, "updated w1", "unmatched w1 died true")
	})
}

// expectAlive looks at all endpoints that are known, by name.
func expectAlive(t *testing.T, when string, d *Directory, want map[string]bool) {
	t.Helper()
	all, err := d.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range all {
		got[e.GUID.Endpoint] = e.Alive
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: alive %v, want %v", when, got, want)
	}
}

// Who observes everybody does not take for alive for ever what is not announced again.
func TestAnObserverSeesWhatIsNotAnnouncedAgain(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		expectAlive(t, "at first", d, map[string]bool{})
		other := []byte(`{"kind":"writer","topic":"q","schema":"1","incarnation":"2","epoch":"4"}`)
		d.announcementCame("ep/q/b/w9", other, false)
		d.presenceCame("presence/b", presence(true, 4), false)
		expectAlive(t, "when it is there", d, map[string]bool{"w9": true})
		d.presenceCame("presence/b", presence(true, 5), false)
		expectAlive(t, "when its participant is back", d, map[string]bool{"w9": false})
		d.presenceCame("presence/b", presence(false, 5), false)
		d.presenceCame("presence/b", presence(true, 6), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 6, 1, 0), false)
		d.announcementCame("ep/q/b/w9", []byte(strings.Replace(string(other), `"4"`, `"6"`, 1)), false)
		_, o := joined(t, d, "reader")
		time.Sleep(2 * doubtAfter)
		synctest.Wait()
		d.presenceCame("presence/b", presence(true, 7), false)
		d.announcementCame("ep/p/b/w1", announcement("writer", 7, 1, 0), false)
		time.Sleep(2 * doubtAfter)
		synctest.Wait()
		expectTold(t, "beside it", o, "matched w1", "updated w1")
		expectAlive(t, "when what is missing was asked for", d, map[string]bool{"w1": true, "w9": false})
	})
}

// What was closed before a participant came back, and the broker still keeps, is not taken
// for something to come.
func TestWhatABrokerKeepsOfEarlierConnectionsDoesNotStay(t *testing.T) {
	alone(t, func(t *testing.T, d *Directory, _ *nowhere) {
		_, o := met(t, d)
		d.presenceCame("presence/b", presence(true, 5), false)
		d.announcementCame("ep/p/b/w3", announcement("writer", 4, 1, 0), true)
		expectTold(t, "then", o)
		d.mu.Lock()
		d.everyone, d.following = true, true
		d.mu.Unlock()
		expectAlive(t, "then", d, map[string]bool{"w1": true, "w2": true, "w3": false})
	})
}
