package qosmutex

import (
	"context"
	"fmt"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// floodedRoot is a root in virtual time, to which anybody says something.
type floodedRoot struct {
	*Topic
	seq uint64
}

// says hands the root what a participant sends to all members.
func (r *floodedRoot) says(from string, kind protocol.Kind) {
	r.seq++
	m := protocol.Message{Kind: kind, From: protocol.Node{ID: from, Incarnation: r.seq}, Clock: r.seq, Priority: 1, TTL: protocol.LAN().TTL}
	if kind == protocol.KindOffer {
		m.Root, m.Epoch = m.From, protocol.EpochOf(r.seq, m.From)
	}
	r.joinMessage(pubsub.RawMessage{Levels: []string{"lock", "t", "join", from}, Payload: protocol.AppendMessage(nil, &m)})
}

// steps is how many messages of a kind have come to the machine.
func (r *floodedRoot) steps(kind protocol.Kind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.metrics.received[kind])
}

// answers is how many have got an offer of a place.
func (r *floodedRoot) answers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.metrics.sent[protocol.KindOffer])
}

func floodRoot(t *testing.T, f func(r *floodedRoot)) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("root")
		defer p.Close(ctx)
		topic, err := Open(ctx, p, "t", Create(), WithResources("crane"), WithNodePriority(0), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		f(&floodedRoot{Topic: topic})
	})
}

// What one participant says to all costs a bounded number of steps, and keeps nobody else
// from asking for a place.
func TestFloodOfOneSenderKeepsNobodyOut(t *testing.T) {
	floodRoot(t, func(r *floodedRoot) {
		const seconds, honest = 10, 10 * 20
		for i := range honest {
			for range 300 {
				r.says("liar", protocol.KindOffer)
			}
			r.says(fmt.Sprint("newcomer", i), protocol.KindJoin)
			time.Sleep(seconds * time.Second / honest)
		}
		if n, most := r.steps(protocol.KindOffer), joinBurst+joinRate*seconds; n > most || n < most/2 {
			t.Errorf("%d steps for the one that floods, at most %d are to be", n, most)
		}
		if n := r.steps(protocol.KindJoin); n != honest {
			t.Errorf("%d joins of others were handled, want %d", n, honest)
		}
		if n, want := r.joining.dropped.Load(), 300*honest-r.steps(protocol.KindOffer); int(n) != want {
			t.Errorf("%d dropped messages are counted, want %d", n, want)
		}
	})
}

// Many that flood share what is for those that repeat themselves.
func TestFloodOfManySendersKeepsNobodyOut(t *testing.T) {
	for _, liars := range []int{16, 1000} {
		t.Run(fmt.Sprint(liars), func(t *testing.T) {
			floodRoot(t, func(r *floodedRoot) {
				flood := func(times int) {
					for range times {
						for i := range liars {
							r.says(fmt.Sprint("liar", i), protocol.KindOffer)
						}
					}
				}
				flood(joinBurst) // so much they have
				time.Sleep(100 * time.Millisecond)
				before := r.steps(protocol.KindOffer)
				const seconds, honest = 2, 20
				for i := range honest {
					flood(5)
					r.says(fmt.Sprint("newcomer", i), protocol.KindJoin)
					time.Sleep(seconds * time.Second / honest)
				}
				if n, most := r.steps(protocol.KindOffer)-before, min(liars*joinRate, repeatRate)*seconds; n > most || n < most/2 {
					t.Errorf("%d steps for those that flood, at most %d are to be", n, most)
				}
				if n := r.steps(protocol.KindJoin); n != honest {
					t.Errorf("%d joins of others were handled, want %d", n, honest)
				}
			})
		})
	}
}

// Ever new names cost no more memory, nor steps, than many names, and are forgotten.
func TestFloodOfManyNames(t *testing.T) {
	var l joinLimit
	begun := time.Unix(1, 0)
	now, steps := begun, 0
	for i := range 20 * maxJoinSenders {
		if now = now.Add(10 * time.Microsecond); l.admit(fmt.Sprint(i), now) {
			steps++
		}
		if n := len(l.senders); n > maxJoinSenders {
			t.Fatalf("%d senders are remembered, at most %d are to be", n, maxJoinSenders)
		}
	}
	if most := newcomersBurst + repeatBurst + int((newcomersRate+repeatRate)*now.Sub(begun).Seconds()) + 1; steps > most {
		t.Errorf("%d steps, at most %d are to be", steps, most)
	}
	if l.admit("one more", now.Add(joinBurst/joinRate*time.Second)); len(l.senders) != 1 {
		t.Errorf("%d senders are remembered when all have been silent", len(l.senders))
	}
}

// A thousand that start at once, and ask again until they have a place, are all heard.
func TestThousandNewcomersAtOnce(t *testing.T) {
	floodRoot(t, func(r *floodedRoot) {
		const newcomers = 1000
		before := r.answers()
		for round := range 4 {
			for i := range newcomers {
				r.says(fmt.Sprint("newcomer", i), protocol.KindJoin)
			}
			if n := r.answers() - before; n < (round+1)*newcomers {
				t.Errorf("%d offers after %d joins", n, (round+1)*newcomers)
			}
			time.Sleep(LAN().JoinWait)
		}
	})
}

// A search of two seconds with the shortest JoinWait of a preset loses nothing, and the one that
// was silent for a while begins anew.
func TestOneThatAsksInTimeIsHeard(t *testing.T) {
	var l joinLimit
	now := time.Unix(1, 0)
	for range 2 {
		for i := range 2 * time.Second / Local().JoinWait {
			if now = now.Add(Local().JoinWait); !l.admit("a", now) {
				t.Fatalf("join %d was dropped", i)
			}
		}
		now = now.Add(joinBurst / joinRate * time.Second)
	}
	if l.admit("b", now); len(l.senders) != 1 {
		t.Errorf("%d senders are remembered, want the one that has just asked", len(l.senders))
	}
}
