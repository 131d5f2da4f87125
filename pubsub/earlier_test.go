package pubsub

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// leftOf is what a late joiner gets of a topic.
func leftOf(t *testing.T, p *Participant, topic string, partition ...string) []float64 {
	t.Helper()
	r := readerOf(t, topicOf[pose](t, p, topic), in(transient, partition...))
	defer r.Close()
	if err := r.WaitForHistoricalData(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return xs(r)
}

func dispose(t *testing.T, w *Writer[pose], key string) {
	t.Helper()
	if err := w.Dispose(testContext(t), poseOf(key, 0)); err != nil {
		t.Fatal(err)
	}
}

// The next version of a program makes other writers before, of the same and of other topics.
func TestDisposeClearsWhatAnEarlierIncarnationLeft(t *testing.T) {
	for _, codec := range []Codec{Msgpack, JSON} {
		t.Run(string(codec), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				late, other := d.join("late"), d.join("other")
				topic := func(p *Participant) *Topic[pose] { return topicOf[pose](t, p, "p", WithCodec(codec)) }
				expect := func(what string, want ...float64) {
					t.Helper()
					r := readerOf(t, topic(late), transient)
					defer r.Close()
					settle(time.Second)
					expectXs(t, what, r, want...)
				}
				write(t, writerOf(t, topic(other), transient), poseOf("k", 1))
				closeNow(t, other)

				a := d.join("a")
				w1, w2 := writerOf(t, topic(a), transient), writerOf(t, topic(a), transient)
				for i, w := range []*Writer[pose]{w1, w2} {
					for j, key := range []string{"k", "l", "m"} {
						settle(time.Millisecond)
						write(t, w, poseOf(key, float64(10*(i+2)+j)))
					}
				}
				closeNow(t, a)
				expect("before", 1, 20, 21, 22, 30, 31, 32)

				a = d.join("a")
				writerOf(t, topicOf[pose](t, a, "another"), transient)
				w2 = writerOf(t, topic(a), transient) // has the name of one that there was
				w3 := writerOf(t, topic(a), transient)
				settle(time.Millisecond)
				write(t, w2, poseOf("l", 41))
				write(t, w2, poseOf("m", 42))
				dispose(t, w3, "k")
				dispose(t, w3, "l") // what w2 has written since is its own
				dispose(t, w2, "m")
				closeNow(t, a)
				expect("the other participant's, and what was written since", 1, 41)

				a = d.join("a")
				r := readerOf(t, topic(a), transient) // has a share of the names
				w := writerOf(t, topic(a), transient)
				dispose(t, w, "l")
				settle(time.Second)
				xs(r)
				closeNow(t, a)
				expect("the other participant's", 1)
			})
		})
	}
}

func TestDisposeClearsInItsPartitions(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		late, a := d.join("late"), d.join("a")
		for i, partition := range []string{"p1", "p2"} {
			write(t, writerOf(t, topicOf[pose](t, a, "p"), in(transient, partition)), poseOf("k", float64(i+1)))
		}
		closeNow(t, a)
		a = d.join("a")
		writerOf(t, topicOf[pose](t, a, "another"), QoS{})
		writerOf(t, topicOf[pose](t, a, "another"), QoS{})
		dispose(t, writerOf(t, topicOf[pose](t, a, "p"), in(transient, "p1")), "k")
		closeNow(t, a)
		for partition, want := range map[string]int{"p1": 0, "p2": 1} {
			if got := leftOf(t, late, "p", partition); len(got) != want {
				t.Errorf("in %s: %v, want %d", partition, got, want)
			}
		}
	})
}

// Who disposes while offline clears it with the reconnection.
func TestDisposeClearsAfterAReconnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		late, a := d.join("late"), d.join("a")
		write(t, writerOf(t, topicOf[pose](t, a, "p"), transient), poseOf("k", 1))
		closeNow(t, a)
		a, fuse := d.joinBy("a")
		writerOf(t, topicOf[pose](t, a, "another"), QoS{})
		w := writerOf(t, topicOf[pose](t, a, "p"), transient)
		fuse.blow(true)
		settle(time.Second)
		dispose(t, w, "k")
		fuse.blow(false)
		settle(time.Minute)
		closeNow(t, a)
		if got := leftOf(t, late, "p"); len(got) > 0 {
			t.Errorf("left: %v", got)
		}
	})
}

// What is not remembered, for want of room, is logged.
func TestDisposeClearsOnlyWhatIsRemembered(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), transient)
		write(t, w, poseOf("k", 1))
		write(t, w, poseOf("l", 2))
		closeNow(t, a)
		var log bytes.Buffer // goroutines of the bubble write to it by turns
		a = join(t, "", "a", WithDialer(d.dial), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		a.exchange.earlier.size = maxEarlier - 1
		writerOf(t, topicOf[pose](t, a, "p"), transient)
		if text := log.String(); !strings.Contains(text, "remembered=65536 others=1\n") {
			t.Errorf("logged: %q", text)
		}
	})
}

// A writer of this incarnation may take the place of one that there was at any time.
func TestWhatWasLeftIsClearedUnlessItWasReplaced(t *testing.T) {
	e := newEarlier()
	puts := 0
	put := func() error { puts++; return nil }
	expect := func(when, instance string, want ...string) {
		t.Helper()
		got := e.of(instance)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: left by %v, want %v", when, got, want)
		}
		puts = 0
		for _, name := range []string{"w1", "w2", "w3"} {
			_ = e.clear(instance, name, put)
		}
		if puts != len(want) {
			t.Errorf("%s: %d cleared, want %d", when, puts, len(want))
		}
	}
	if !e.begin("p/") {
		t.Fatal("what nobody has asked for is known")
	}
	_ = e.replace("p/k/a/", "w1", put)
	for _, topic := range []string{"p/k/a/w1", "p/k/a/w2", "p/k/a/w2", "p/k/a/w3", "p/l/a/w1"} {
		e.found(topic) // the first was on its way
	}
	_ = e.replace("p/k/a/", "w3", put)
	e.end("p/", true)
	e.found("p/k/a/w1") // too late
	expect("afterwards", "p/k/a/", "w2")
	expect("another instance", "p/l/a/", "w1")
	_ = e.replace("p/k/a/", "w2", put)
	_ = e.replace("p/l/a/", "w1", put)
	expect("replaced", "p/k/a/")
	expect("another instance that was replaced", "p/l/a/")
	e.cleared("p/k/a/", "w2")
	e.begin("p2/")
	e.found("p2/k/a/w1")
	e.found("p2/k/a/w2")
	e.end("p2/", true)
	e.cleared("p2/k/a/", "w1")
	expect("cleared", "p2/k/a/", "w2")
	e.cleared("p2/k/a/", "w2")
	if e.begin("p/") || e.size != 0 || len(e.left) != 0 {
		t.Errorf("asked again, or %d left: %v", e.size, e.left)
	}
	e.begin("q/")
	e.end("q/", false)
	if !e.begin("q/") {
		t.Error("not asked again after a failure")
	}
}
