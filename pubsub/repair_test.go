package pubsub

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/tests/bubble"
)

// lossyPair is a writer and a reader over a network that loses, repeats and
// reorders.
type lossyPair struct {
	hours  int // that have passed for the sender's heartbeats
	s      *sender
	r      *receiver
	wire   []func()        // deliveries under way
	posted []repairMessage // all letters of both
}

func newLossyPair(q QoS) *lossyPair {
	_ = q.validate()
	const schema = 7
	n := &lossyPair{s: newSender("w1", 1, q, newEvents()), r: newReceiver("r1", 2, schema, q, newEvents())}
	n.s.publish = func(key string, payload []byte) error {
		n.wire = append(n.wire, func() { n.r.sample(key, "w/w1", payload) })
		return nil
	}
	toSender, toReceiver := GUID{"r", 2, "r1"}, GUID{"w", 1, "w1"}
	deliver := func(letter []byte) {
		var e envelope
		if err := parseEnvelope(letter, &e); err != nil {
			panic(err)
		}
		m, err := parseRepair(e.body)
		if err != nil {
			panic(err)
		}
		switch m.op {
		case opAck:
			n.s.acknowledged(toSender, &m)
		case opHeartbeat:
			n.r.heartbeat(toReceiver, &m)
		case opGap:
			n.r.gap(toReceiver, &m)
		case opSample:
			n.r.repaired(m.key, "w/w1", m.sample)
		}
	}
	post := func(_ string, letter []byte) {
		n.wire = append(n.wire, func() { deliver(letter) })
		var e envelope
		_ = parseEnvelope(letter, &e)
		m, _ := parseRepair(e.body)
		n.posted = append(n.posted, m)
	}
	n.r.quiet = 0 // the hours of tick pass for the sender only
	n.s.post, n.r.post, n.r.drop = post, post, func(reason) {}
	return n
}

func (n *lossyPair) match() {
	var e endpoint
	e.QoS = offer{Reliability: n.s.qos.Reliability, Durability: n.s.qos.Durability, dataOffer: n.s.qos.dataOffer()}
	e.guid = GUID{"w", 1, "w1"}
	n.r.matched(e)
	e.guid = GUID{"r", 2, "r1"}
	n.s.matched(e)
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
	n.s.tick(time.Now().Add(time.Duration(n.hours) * time.Hour))
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
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: rapid.IntRange(4, 200).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "transient-local") {
			q.Durability = TransientLocal
			q.MaxSamples = 200
		}
		n := newLossyPair(q)
		var got []uint64
		takeAll := func() {
			for h := n.r.takeNext(); h != nil; h = n.r.takeNext() {
				got = append(got, h.info.Sequence)
			}
		}
		before := 0
		if q.Durability == TransientLocal {
			before = rapid.IntRange(0, 20).Draw(t, "written before")
		}
		written := uint64(0)
		write := func() {
			if _, err := n.s.tryWrite("-", &envelope{schema: 7}); err == nil {
				written++
			} else if !errors.Is(err, errFull) {
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
		if wait := n.s.lagging(written); wait != nil {
			t.Fatal("everything arrived but is not acknowledged")
		}
		if w := n.r.writers["w/w1"]; len(w.early) > 0 || w.earlyBytes != 0 {
			t.Fatalf("%d samples are still held back", len(w.early))
		}
		if q.Durability == Volatile && len(n.s.held) > 0 {
			t.Fatalf("%d acknowledged samples are still held", len(n.s.held))
		}
	})
}

// With keep-last, what is missing is told, and what is there is in order.
func TestKeepLastLosesOnlyWhatItReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newLossyPair(QoS{Reliability: Reliable, Depth: rapid.IntRange(1, 3).Draw(t, "depth")})
		n.r.qos.History, n.r.cache.qos.History, n.r.cache.qos.MaxSamples = KeepAll, KeepAll, 1000
		n.match()
		n.heal()
		written := uint64(0)
		for range rapid.IntRange(0, 60).Draw(t, "samples") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			if _, err := n.s.tryWrite(key, &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
			written++
			n.step(len(n.wire)-1, rapid.SampledFrom([]string{"deliver", "lose"}).Draw(t, "fate"))
		}
		if !n.heal() {
			t.Fatal("the two never come to rest")
		}
		arrived, lost, last := uint64(0), uint64(0), uint64(0)
		for h := n.r.takeNext(); h != nil; h = n.r.takeNext() {
			if h.info.Sequence <= last {
				t.Fatalf("number %d after %d", h.info.Sequence, last)
			}
			last = h.info.Sequence
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
	n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll})
	n.match()
	n.heal()
	writeN := func(k int) {
		for range k {
			if _, err := n.s.tryWrite("-", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeN(3)
	n.heal()
	reader := GUID{"r", 2, "r1"}
	n.s.unmatched(reader, true)
	writeN(2) // kept for a while, but the reader stays away for longer
	n.wire = nil
	n.s.mu.Lock()
	n.s.readers[reader].gone = time.Now().Add(-2 * goneFor)
	n.s.mu.Unlock()
	n.s.tick(time.Now())
	if len(n.s.held) > 0 {
		t.Fatal("samples are held for a reader that is gone")
	}
	n.match()
	writeN(1)
	if !n.heal() {
		t.Fatal("the two never come to rest")
	}
	var got []uint64
	for h := n.r.takeNext(); h != nil; h = n.r.takeNext() {
		got = append(got, h.info.Sequence)
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
	n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll, MaxSamples: written})
	n.match()
	n.heal()
	for range written {
		if _, err := n.s.tryWrite("-", &envelope{schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.wire = nil
	again := 0
	post := n.s.post
	n.s.post = func(to string, letter []byte) {
		var e envelope
		if err := parseEnvelope(letter, &e); err != nil {
			t.Fatal(err)
		}
		if m, err := parseRepair(e.body); err == nil && m.op == opSample {
			again++
		}
		post(to, letter)
	}
	for range 5 {
		n.s.last() // asks for acknowledgement
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
	for _, m := range []repairMessage{
		{op: opHeartbeat, a: 1, b: 1 << 61},
		{op: opHeartbeat, a: 1 << 61, b: 1 << 61, c: 5},
		{op: opAck, a: 3, b: 1, ranges: []seqRange{{0, 1 << 63}}},
		{op: opGap, ranges: []seqRange{{1, 1 << 63}, {0, 0}}},
	} {
		m.from, m.to, m.incarnation = "w1", "r1", 2
		var e envelope
		if err := parseEnvelope(m.encode(1), &e); err != nil {
			f.Fatal(err)
		}
		f.Add(e.body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseRepair(body)
		if err != nil {
			return
		}
		var back envelope
		if err := parseEnvelope(m.encode(1), &back); err != nil {
			t.Fatal(err)
		}
		if again, err := parseRepair(back.body); err != nil || len(again.ranges) != len(m.ranges) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
		n := newLossyPair(QoS{Reliability: Reliable, Depth: 3})
		n.match()
		for range 10 {
			if _, err := n.s.tryWrite("-", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.wire = append(n.wire[:3:3], n.wire[5:]...)
		w, r := GUID{"w", 1, "w1"}, GUID{"r", 2, "r1"}
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

func FuzzAnnouncements(f *testing.F) {
	f.Add([]byte(`{"kind":"writer","topic":"t","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1}}`))
	f.Add([]byte(`{"alive":true,"incarnation":"1","epoch":"2","since":"2024-01-01T00:00:00Z"}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseEndpoint("p", "w1", b)
		_, _ = parsePresence("p", b)
	})
}

// letters returns those of a kind that were posted, and forgets all.
func (n *lossyPair) letters(op repairOp) (found []repairMessage) {
	for _, l := range n.posted {
		if l.op == op {
			found = append(found, l)
		}
	}
	n.posted = nil
	return found
}

// A heartbeat, which has a connection of its own, overtakes samples. They are not sent
// again, and acknowledged as soon as they are there.
func TestAHeartbeatThatOvertakesSamplesAsksForNothing(t *testing.T) {
	n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll})
	n.match()
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	for range 3 {
		if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.r.quiet = time.Hour
	n.step(0, "deliver") // the first sample; the two others are on the way
	writer := GUID{"w", 1, "w1"}
	answer := func(last uint64) []repairMessage {
		n.posted = nil
		n.r.heartbeat(writer, &repairMessage{a: 1, b: last})
		return n.letters(opAck)
	}
	if acks := answer(3); len(acks) != 1 || acks[0].a != 1 || len(acks[0].ranges) > 0 {
		t.Errorf("answered %+v", acks)
	}
	on := n.wire
	n.wire = nil
	on[0]()
	if acks := n.letters(opAck); len(acks) > 0 {
		t.Errorf("the second of three samples is acknowledged: %+v", acks)
	}
	on[1]()
	if acks := n.letters(opAck); len(acks) != 1 || acks[0].a != 3 {
		t.Errorf("the last is acknowledged by %+v", acks)
	}
	n.r.writers["w/w1"].heard = time.Now().Add(-2 * time.Hour)
	if acks := answer(5); len(acks) != 1 || !slices.Equal(acks[0].ranges, []seqRange{{4, 5}}) {
		t.Errorf("two that are lost are asked for by %+v", acks)
	}
	e := envelope{kind: kindSample, epoch: 1, seq: 4, schema: 7}
	n.r.repaired("k", "w/w1", appendEnvelope(nil, &e)) // tells nothing of what is on the other connection
	if acks := answer(6); len(acks) != 1 || !slices.Equal(acks[0].ranges, []seqRange{{5, 6}}) {
		t.Errorf("the rest is asked for by %+v", acks)
	}
}

// However small the history, acknowledgements come as it fills.
func TestASmallHistoryDoesNotWaitForHeartbeats(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 2})
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{Reliability: Reliable, History: KeepAll})
		awaitReaders(t, w, 1)
		began := time.Now()
		for range 100 {
			write(t, w, pose{})
		}
		if took := time.Since(began); took >= minBeat {
			t.Errorf("100 samples took %v", took)
		}
	})
}

// A writer knows what has not left it.
func TestWhatIsOnTheWayToTheBrokerIsNotSentAgain(t *testing.T) {
	n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll})
	var placed, passed uint64
	n.s.placed, n.s.passed = func() uint64 { placed++; return placed }, func() uint64 { return passed }
	n.match()
	for range 4 {
		if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	for _, passed = range []uint64{0, 2, 4} {
		n.posted = nil
		n.s.acknowledged(GUID{"r", 2, "r1"}, &repairMessage{op: opAck, ranges: []seqRange{{1, 4}}})
		if again := n.letters(opSample); len(again) != int(passed) {
			t.Errorf("%d of 4 samples are with the broker, and %d are sent again", passed, len(again))
		}
		n.s.readers[GUID{"r", 2, "r1"}].burst = 0
	}
}

// A heartbeat that overtakes samples gives up none of those that it says are not held
// any more, as they are on their way; those that have not come for a while it does.
func TestAHeartbeatThatOvertakesSamplesGivesUpNone(t *testing.T) {
	n := newLossyPair(QoS{Reliability: Reliable, Depth: 1})
	n.r.qos.History, n.r.cache.qos.History = KeepAll, KeepAll
	n.match()
	n.heal()
	write := func(count int) {
		t.Helper()
		for range count {
			if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}
	arrived := func() (got []uint64) {
		for h := n.r.takeNext(); h != nil; h = n.r.takeNext() {
			got = append(got, h.info.Sequence)
		}
		return got
	}
	n.r.quiet = time.Hour
	write(1)
	n.step(0, "deliver")
	write(3)
	writer := GUID{"w", 1, "w1"}
	n.r.heartbeat(writer, &repairMessage{a: 4, b: 4})
	n.heal()
	if got, lost := arrived(), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{1, 2, 3, 4}) || len(lost) > 0 {
		t.Errorf("got %v, told %v", got, lost)
	}
	write(3)
	n.wire = nil
	n.r.writers["w/w1"].heard = time.Now().Add(-2 * time.Hour)
	n.r.heartbeat(writer, &repairMessage{a: 7, b: 7})
	n.heal()
	if got, lost := arrived(), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{7}) || !slices.Equal(lost, []SampleLost{{writer, 2}}) {
		t.Errorf("got %v, told %v", got, lost)
	}
}

// A broker that does not acknowledge, or is held up by somebody else's reader, does
// not keep a reader waiting for what it lacks for ever.
func TestWhatDoesNotArriveIsSentAgainThoughItIsOnTheWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll})
		placed := uint64(0)
		n.s.placed = func() uint64 { placed++; return placed }
		n.match()
		n.heal()
		for range 3 {
			if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(acked uint64) int {
			n.posted = nil
			n.s.acknowledged(GUID{"r", 2, "r1"}, &repairMessage{op: opAck, a: acked, ranges: []seqRange{{acked + 1, 3}}})
			return len(n.letters(opSample))
		}
		for _, step := range []struct {
			after time.Duration
			acked uint64
			want  int
		}{
			{0, 0, 0},
			{maxBeat - 1, 0, 0},
			{0, 1, 0}, // it moves
			{maxBeat - 1, 1, 0},
			{1, 1, 2},
		} {
			time.Sleep(step.after)
			if again := ask(step.acked); again != step.want {
				t.Errorf("%+v: %d are sent again", step, again)
			}
		}
	})
}

// What is lost before the writer's first word has arrived is told too.
func TestLossesBeforeTheFirstHeartbeatAreTold(t *testing.T) {
	for _, d := range []Durability{Volatile, TransientLocal} {
		n := newLossyPair(QoS{Reliability: Reliable, Durability: d, Depth: 1})
		if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
			t.Fatal(err)
		}
		n.match()
		for range 3 {
			if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.wire = nil
		n.heal()
		var want []SampleLost
		if d == Volatile { // to a late joiner all of it is history
			want = []SampleLost{{GUID{"w", 1, "w1"}, 2}}
		}
		if lost := told[SampleLost](n.r.events); !slices.Equal(lost, want) {
			t.Errorf("%v: told %v, want %v", d, lost, want)
		}
	}
}
