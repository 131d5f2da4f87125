package reliable

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

// lossyPair is a writer and a reader over a network that loses, repeats and
// reorders.
type lossyPair struct {
	recalled int    // how often the reader has asked for what is retained
	hours    int    // that have passed for the sender's heartbeats
	epoch    uint64 // of the writer's connection
	s        *Sender
	r        *Receiver
	wire     []func()      // deliveries under way
	posted   []wire.Repair // all messages of both
}

var theWriter, theReader = wire.GUID{Participant: "w", Incarnation: 1, Endpoint: "w1"}, wire.GUID{Participant: "r", Incarnation: 2, Endpoint: "r1"}

func newLossyPair(q Policies, reader ...Policies) *lossyPair {
	q = withDefaults(q)
	rq := q
	if len(reader) > 0 {
		rq = withDefaults(reader[0])
	}
	rq.Lifespan = 0
	const schema = 7
	n := &lossyPair{}
	deliver := func(message []byte) {
		var e wire.Envelope
		if err := wire.Parse(message, &e); err != nil {
			panic(err)
		}
		m, err := wire.ParseRepair(e.Body)
		if err != nil {
			panic(err)
		}
		if m.Op == wire.OpAck {
			n.s.acknowledged(theReader, &m)
		} else if m.Op != wire.OpAlive && m.Op != wire.OpEnd {
			n.r.Handle(theWriter, &m)
		}
	}
	post := func(_ string, message []byte) {
		n.wire = append(n.wire, func() { deliver(message) })
		var e wire.Envelope
		_ = wire.Parse(message, &e)
		m, _ := wire.ParseRepair(e.Body)
		n.posted = append(n.posted, m)
	}
	out := noOut()
	out.Post = post
	out.Publish = func(_, key string, payload []byte, _ Sharing) error {
		n.wire = append(n.wire, func() { n.r.Arrived(key, "w/w1", payload) })
		return nil
	}
	out.Retain = func(partition, key string, payload []byte) error {
		if len(payload) == 0 {
			return nil
		}
		return out.Publish(partition, key, payload, Alone)
	}
	n.s = NewSender(&Writer{Policies: q, Topic: "t", Name: "w1", Incarnation: 1}, out, &recorder{})
	n.r = NewReceiver(&Reader{Policies: rq, Incarnation: 2, Schema: schema}, Inlet{Post: post, Drop: func(drop.Reason) {}, Wake: func() {}, Recall: func() { n.recalled++ }}, &recorder{})
	n.r.Named("r1")
	n.r.quiet = 0 // the hours of tick pass for the sender only
	return n
}

// withDefaults are policies as package pubsub fills them in.
func withDefaults(q Policies) Policies {
	q.Depth = max(q.Depth, 1)
	if q.MaxSamples == 0 {
		q.MaxSamples = 8192
	}
	if q.MaxInstances == 0 {
		q.MaxInstances = 8192
	}
	return q
}

// waiting are the samples that wait, which have been read from then on.
func waiting(r *Receiver) []*cache.Held { return r.Collect(1000, &anySample, false) }

// noOut sends nothing.
func noOut() Out {
	return Out{
		Publish: func(string, string, []byte, Sharing) error { return nil },
		Retain:  func(string, string, []byte) error { return nil },
		Left:    func(string, string) []string { return nil },
		Cleared: func(string, string, string) {},
		Post:    func(string, []byte) {}, Placed: func() uint64 { return 0 }, Passed: func() uint64 { return 0 },
		SendNow: func() {}, Wake: func() {}, Gather: func(time.Duration) {},
	}
}

func (n *lossyPair) match() {
	p := Peer{GUID: theWriter, Reliable: n.s.qos.Reliable, Historic: n.s.qos.Historic}
	n.r.Matched(p)
	p.GUID = theReader
	n.s.Matched(p)
}

// step delivers the message i, or loses or repeats it.
func (n *lossyPair) step(i int, fate string) {
	f := n.wire[i]
	if fate != "repeat" {
		n.wire = append(n.wire[:i:i], n.wire[i+1:]...)
	}
	if fate != "lose" {
		f()
	}
}

// tick lets the sender act an hour after its last act, when every heartbeat is due.
func (n *lossyPair) tick() {
	n.hours++
	n.s.Tick(time.Now().Add(time.Duration(n.hours) * time.Hour))
}

// heal loses nothing for a while. It reports false if the messages never end.
func (n *lossyPair) heal() bool {
	for range 10 {
		for delivered := 0; len(n.wire) > 0; delivered++ {
			if delivered > 10_000 {
				return false
			}
			n.step(0, "deliver")
		}
		n.tick()
	}
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	return true
}

func TestReliableDeliveryIsInOrderAndOnceOverALossyNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{Reliable: true, KeepAll: true, MaxSamples: rapid.IntRange(4, 200).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "transient-local") {
			q.Historic = true
			q.MaxSamples = 200
		}
		n := newLossyPair(q)
		var got []uint64
		takeAll := func() {
			for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
				got = append(got, h.Seq)
			}
		}
		before := 0
		if q.Historic {
			before = rapid.IntRange(0, 20).Draw(t, "written before")
		}
		written := uint64(0)
		write := func() {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err == nil {
				written++
			} else if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		for range before {
			write()
		}
		n.match()
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 3:
				write()
			case op < 4:
				takeAll()
			case op < 5:
				n.tick()
			case len(n.wire) > 0:
				i := rapid.IntRange(0, len(n.wire)-1).Draw(t, "message")
				n.step(i, rapid.SampledFrom([]string{"deliver", "lose", "repeat", "deliver"}).Draw(t, "fate"))
			}
		}
		for uint64(len(got)) < written {
			have := len(got)
			if !n.heal() {
				t.Fatal("the two never come to rest")
			}
			if takeAll(); len(got) == have {
				t.Fatalf("%d of %d samples arrived, and no more come", have, written)
			}
		}
		for i, seq := range got {
			if seq != uint64(i+1) {
				t.Fatalf("sample %d is number %d: %v", i+1, seq, got)
			}
		}
		n.heal()
		if wait := n.s.Lagging(written); wait != nil {
			t.Fatal("everything arrived but is not acknowledged")
		}
		if w := n.r.writers["w/w1"]; len(w.early) > 0 || w.earlyBytes != 0 {
			t.Fatalf("%d samples are still held back", len(w.early))
		}
		if !q.Historic && len(n.s.held) > 0 {
			t.Fatalf("%d acknowledged samples are still held", len(n.s.held))
		}
	})
}

// With keep-last, what is missing is told, and what is there is in order.
func TestKeepLastLosesOnlyWhatItReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: rapid.IntRange(1, 3).Draw(t, "depth")}, Policies{Reliable: true, KeepAll: true, MaxSamples: 1000})
		n.match()
		n.heal()
		written := uint64(0)
		for range rapid.IntRange(0, 60).Draw(t, "samples") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
			written++
			n.step(len(n.wire)-1, rapid.SampledFrom([]string{"deliver", "lose"}).Draw(t, "fate"))
		}
		if !n.heal() {
			t.Fatal("the two never come to rest")
		}
		arrived, lost, last := uint64(0), uint64(0), uint64(0)
		for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
			if h.Seq <= last {
				t.Fatalf("number %d after %d", h.Seq, last)
			}
			last = h.Seq
			arrived++
		}
		for _, e := range drain(n.r.events) {
			if l, ok := e.(SampleLost); ok {
				lost += l.Count
			}
		}
		if arrived+lost != written || written > 0 && last != written {
			t.Fatalf("%d arrived, %d told lost, of %d; the last is %d", arrived, lost, written, last)
		}
	})
}

func TestAReaderThatWasForgottenIsToldWhatItMissed(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	n.match()
	n.heal()
	writeN := func(k int) {
		for range k {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeN(3)
	n.heal()
	reader := theReader
	n.s.Unmatched(reader, true)
	writeN(2) // kept for a while, but the reader stays away for longer
	n.wire = nil
	n.s.mu.Lock()
	n.s.readers[reader].gone = time.Now().Add(-2 * goneFor)
	n.s.mu.Unlock()
	n.s.Tick(time.Now())
	if len(n.s.held) > 0 {
		t.Fatal("samples are held for a reader that is gone")
	}
	n.match()
	writeN(1)
	if !n.heal() {
		t.Fatal("the two never come to rest")
	}
	var got []uint64
	for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
		got = append(got, h.Seq)
	}
	if !reflect.DeepEqual(got, []uint64{1, 2, 3, 6}) {
		t.Errorf("arrived: %v", got)
	}
	var lost uint64
	for _, e := range drain(n.r.events) {
		if l, ok := e.(SampleLost); ok {
			lost += l.Count
		}
	}
	if lost != 2 {
		t.Errorf("%d told lost, want 2", lost)
	}
}

// Several heartbeats that are on the way at once, as behind a broker with a long
// queue, must not have the same samples sent as many times: that only makes the
// queue longer.
func TestSamplesAreSentAgainOnceWhileTheAnswerIsOnTheWay(t *testing.T) {
	const written = 10 * repairBurst
	n := newLossyPair(Policies{Reliable: true, KeepAll: true, MaxSamples: written})
	n.match()
	n.heal()
	for range written {
		if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.wire = nil
	again := 0
	post := n.s.out.Post
	n.s.out.Post = func(to string, message []byte) {
		var e wire.Envelope
		if err := wire.Parse(message, &e); err != nil {
			t.Fatal(err)
		}
		if m, err := wire.ParseRepair(e.Body); err == nil && m.Op == wire.OpSample {
			again++
		}
		post(to, message)
	}
	for range 5 {
		n.s.Last() // asks for acknowledgement
	}
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	if again != written {
		t.Errorf("%d samples were sent again, %d were missing", again, written)
	}
}

// Whatever a peer says, nothing panics, loops for long or grows without bound.
func FuzzRepair(f *testing.F) {
	for _, m := range []wire.Repair{
		{Op: wire.OpHeartbeat, A: 1, B: 1 << 61},
		{Op: wire.OpHeartbeat, A: 1 << 61, B: 1 << 61, C: 5},
		{Op: wire.OpAck, A: 3, B: 1, Ranges: []wire.Range{{First: 0, Last: 1 << 63}}},
		{Op: wire.OpGap, Ranges: []wire.Range{{First: 1, Last: 1 << 63}, {First: 0, Last: 0}}},
	} {
		m.From, m.To, m.Incarnation = "w1", "r1", 2
		var e wire.Envelope
		if err := wire.Parse(m.Encode(1), &e); err != nil {
			f.Fatal(err)
		}
		f.Add(e.Body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := wire.ParseRepair(body)
		if err != nil {
			return
		}
		var back wire.Envelope
		if err := wire.Parse(m.Encode(1), &back); err != nil {
			t.Fatal(err)
		}
		if again, err := wire.ParseRepair(back.Body); err != nil || len(again.Ranges) != len(m.Ranges) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
		n := newLossyPair(Policies{Reliable: true, Depth: 3})
		n.match()
		for range 10 {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.wire = append(n.wire[:3:3], n.wire[5:]...)
		w, r := theWriter, theReader
		n.s.acknowledged(r, &m)
		n.r.heartbeat(w, &m)
		n.r.gap(w, &m)
		for _, f := range n.wire {
			f()
		}
		n.r.heartbeat(w, &m)
		n.r.gap(w, &m)
		n.s.acknowledged(r, &m)
	})
}

// messages returns those of a kind that were posted, and forgets all.
func (n *lossyPair) messages(op wire.RepairOp) (found []wire.Repair) {
	for _, l := range n.posted {
		if l.Op == op {
			found = append(found, l)
		}
	}
	n.posted = nil
	return found
}
