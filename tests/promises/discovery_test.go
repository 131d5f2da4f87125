package promises

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/brokers"
	"padme/tests/poll"
)

// Finding 4: what the dead had announced takes nobody's place.
func TestEndpointsOfTheDeadMakeRoom(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		const dead, each, step = 17, 1 << 12, 1 << 9 // more than anybody remembers
		a := join(t, url, "a")
		r := reader(t, a, "t", keepAll)
		var heard atomic.Int64
		if _, err := a.SubscribeRaw(within(t, patience), pubsub.Main, []string{"ep", "t", "+", "+"}, func(pubsub.RawMessage) { heard.Add(1) }); err != nil {
			t.Fatal(err)
		}
		stranger, before := join(t, url, "stranger"), heard.Load()
		announcement := []byte(`{"kind":"writer","topic":"t","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1}}`)
		for n := range dead * each {
			levels := []string{"ep", "t", fmt.Sprintf("dead%d", n/each), fmt.Sprintf("w%d", n%each)}
			if err := stranger.PublishRaw(pubsub.Main, levels, announcement, false); err != nil {
				t.Fatal(err)
			}
			if n%step == step-1 {
				poll.Until(t, "announcements arrive", func() bool { return heard.Load()-before > int64(n) })
			}
		}
		w := writer(t, join(t, url, "b"), "t", keepAll)
		if err := r.WaitMatched(within(t, patience), 1); err != nil {
			t.Fatalf("after %d endpoints of the dead a healthy one does not match: %v", dead*each, err)
		}
		matched(t, w, 1)
		write(t, w, "a", 1)
		if err := w.WaitAcked(within(t, patience)); err != nil {
			t.Error(err)
		}
	})
}

// Finding 6: what a participant costs that looks for few others does not grow with how many
// there are; nor does it at a broker that has forgotten all.
func TestDiscoveryCostsWhatMatches(t *testing.T) {
	t.Parallel()
	brokers.Both(t, func(t *testing.T, start func() string) {
		t.Parallel()
		const n, most = 24, 30 * 24 // 22 each, whatever n is
		first, again := ring(t, n, start)
		t.Logf("%d participants sent and received %d messages, and %d at the next broker", n, first, again)
		if first > most || again > most {
			t.Errorf("more than %d messages", most)
		}
	})
}

// ring has n participants with a writer and a reader each, which the next and the one
// before match, and returns how many messages they send and receive, and how many once
// more at another broker, which knows nothing.
func ring(t *testing.T, n int, start func() string) (first, again int64) {
	t.Helper()
	url, wires := start(), make([]*wire, n)
	var ends []func() []pubsub.Peer
	var lost, back atomic.Int64
	for i := range n {
		wires[i] = wireTo(url)
		p := join(t, url, fmt.Sprintf("p%d", i), wires[i].option())
		p.Notify(func(up bool) {
			if up {
				back.Add(1)
			} else {
				lost.Add(1)
			}
		})
		ends = append(ends, writer(t, p, fmt.Sprint(i), keepAll).Matched, reader(t, p, fmt.Sprint((i+1)%n), keepAll).Matched)
	}
	settle := func() (count int64) { // nothing is asked after a longer silence
		for last := int64(-1); count != last; time.Sleep(400 * time.Millisecond) {
			last, count = count, 0
			for _, w := range wires {
				count += w.out.Load() + w.in.Load()
			}
		}
		for i, of := range ends {
			if m := of(); len(m) != 1 {
				t.Errorf("endpoint %d of %d matches %v", i, len(ends), m)
			}
		}
		return count
	}
	first = settle()
	url = start()
	for _, w := range wires {
		w.cut()
	}
	poll.Until(t, "everybody has lost the connection", func() bool { return lost.Load() == int64(n) })
	for _, w := range wires {
		w.restore(url)
	}
	poll.Until(t, "everybody is back", func() bool { return back.Load() == int64(n) })
	return first, settle() - first
}
