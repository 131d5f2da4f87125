package realrun

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// publish is a packet of MQTT at QoS 0.
func publish(topic, payload string) []byte {
	b := append([]byte{0x30}, 0, 0, 0)[:1]
	rest := 2 + len(topic) + len(payload)
	for ; rest >= 0x80; rest >>= 7 {
		b = append(b, byte(rest)|0x80)
	}
	b = append(b, byte(rest), byte(len(topic)>>8), byte(len(topic)))
	return append(append(b, topic...), payload...)
}

// linked is a link and its other end.
func linked(t *testing.T, delays map[string][]time.Duration) (*link, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	l := newLink(near, &way{inboxes: []byte("p/v1/d/node/"), delays: delays, known: rand.New(rand.NewPCG(1, 1))})
	t.Cleanup(func() { _ = l.Close(); _ = far.Close() })
	return l, far
}

// Messages to a participant stay in order, those to a nearer one come before, and what is no
// message to a participant goes at once; however the bytes were written.
func TestLinkKeepsTheOrderOfEachReceiver(t *testing.T) {
	near, far := 20*time.Millisecond, 60*time.Millisecond
	for _, size := range []int{1, 7, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l, other := linked(t, map[string][]time.Duration{"near": {near, near / 10}, "far": {far}})
			var all []byte
			for i := range 20 {
				all = append(all, publish("p/v1/d/node/far/me", fmt.Sprintf("<far %d>", i))...)
				all = append(all, publish("p/v1/d/node/near/me", fmt.Sprintf("<near %d>", i)+strings.Repeat("x", 20*i))...)
			}
			all = append(all, publish("p/v1/d/lock/crane/events", "<event>")...)
			text := make(chan string)
			go func() {
				came := make([]byte, len(all))
				_, _ = io.ReadFull(other, came)
				text <- string(came)
			}()
			begun := time.Now()
			for chunk := range slices.Chunk(all, size) {
				if n, err := l.Write(chunk); err != nil || n != len(chunk) {
					t.Fatal(n, err)
				}
			}
			out := <-text
			if took := time.Since(begun); took < far {
				t.Errorf("a message of %v took %v", far, took)
			}
			at := func(what string) int { return strings.Index(out, what) }
			for i := range 20 {
				for _, to := range []string{"near", "far"} {
					if here, before := at(fmt.Sprintf("<%s %d>", to, i)), at(fmt.Sprintf("<%s %d>", to, i-1)); here < 0 || here < before {
						t.Fatalf("message %d to %s is at %d, the one before at %d of %q", i, to, here, before, out)
					}
				}
			}
			if size == 100_000 && at("<event>") > at("<near 0>") {
				t.Error("an event waits for messages to participants")
			}
		})
	}
}

// Messages by which is measured take the same time, none to those to whom others take none, and
// they pass and are passed.
func TestFlatLink(t *testing.T) {
	w := &way{inboxes: []byte("p/"), delays: map[string][]time.Duration{"a": {time.Hour}}, flat: time.Minute, known: rand.New(rand.NewPCG(1, 1))}
	for _, c := range []struct {
		topic, payload string
		want           time.Duration
		behind         string
	}{
		{"p/a/me", "x", time.Hour, "a"}, {"p/a/me", pingChannel, time.Minute, pingChannel + "a"}, {"p/b/me", pingChannel, 0, "b"}, {"q/a/me", "x", 0, ""},
	} {
		if d, behind := w.delay(publish(c.topic, c.payload)); d != c.want || behind != c.behind {
			t.Errorf("%s %s: %v behind %q", c.topic, c.payload, d, behind)
		}
	}
}

// A closed link fails and drops what waits.
func TestClosedLink(t *testing.T) {
	l, other := linked(t, map[string][]time.Duration{"a": {time.Hour}})
	came := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(other)
		came <- all
	}()
	if _, err := l.Write(publish("p/v1/d/node/a/me", "late")); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := l.Write(publish("p/v1/d/lock/crane/events", "e")); err == nil {
		t.Error("a closed link takes what is written")
	}
	if all := <-came; len(all) > 0 {
		t.Errorf("%q has come", all)
	}
}

func TestReceiver(t *testing.T) {
	for topic, want := range map[string]string{"p/v1/d/node/a%2Fb/me": "a%2Fb", "p/v1/d/node": "", "q/v1/d/node/a/me": ""} {
		if got := receiver(publish(topic, "x"), []byte("p/v1/d/node/")); got != want {
			t.Errorf("%s: %q", topic, got)
		}
	}
	for _, packet := range [][]byte{{0xc0, 0}, {0x30, 0}, {0x30, 2, 0, 9}, {0x30, 1, 0}} {
		if packetLength(packet) > 0 && receiver(packet, []byte("p/")) != "" {
			t.Errorf("%v goes to somebody", packet)
		}
	}
}
