package pubsub

import (
	"bytes"
	"fmt"
	"testing"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

// TestMessagesOfABurstGoOutAsOne: with what answers them, and in order.
func TestMessagesOfABurstGoOutAsOne(t *testing.T) {
	url := startBroker(t)
	a, b, watcher := join(t, url, "a"), join(t, url, "b"), join(t, url, "w")
	const n = 100
	published := make(chan int, 2*n) // how many messages each has
	for _, inbox := range [][]string{{"node", "b", "a"}, {"node", "a", "b"}} {
		stop, err := watcher.SubscribeRaw(t.Context(), Main, inbox, func(m RawMessage) {
			var e wire.Envelope
			messages := 0
			for rest := m.Payload; len(rest) > 0; messages++ {
				var err error
				if rest, err = wire.Next(rest, &e); err != nil {
					t.Error(err)
					return
				}
			}
			published <- messages
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	if _, err := b.Inbox("c", func(m Message) {
		if err := b.Post("a", "c", m.Payload); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, n)
	if _, err := a.Inbox("c", func(m Message) { answers <- string(m.Payload) }); err != nil {
		t.Fatal(err)
	}
	a.Together(func() {
		for i := range n {
			if err := a.Post("b", "c", fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range n {
		if s := receive(t, answers, "an answer"); s != fmt.Sprint(i) {
			t.Fatalf("answer %d is %q", i, s)
		}
	}
	for range 2 {
		if got := receive(t, published, "what was published"); got != n {
			t.Errorf("%d messages in one publication, want %d", got, n)
		}
	}
}

// TestMessageBehindAnotherMustBegin: what a broker would not count is no message, nor is what
// is too long to be counted in full.
func TestMessageBehindAnotherMustBegin(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	got := make(chan string, 4)
	if _, err := b.Inbox("c", func(m Message) { got <- string(m.Payload) }); err != nil {
		t.Fatal(err)
	}
	envelope := func(s string) []byte {
		e := wire.Envelope{Kind: wire.KindMessage, Body: []byte(s)}
		e.Options.Channel = []byte("c")
		return wire.Append(nil, &e)
	}
	other := append([]byte{0xdc, 0, 8}, envelope("2")[1:]...) // as good, elsewhere

	repair := wire.Append(nil, &wire.Envelope{Kind: wire.KindRepair}) // which is not counted
	for _, payload := range [][]byte{
		other, append(envelope("1"), other...),
		append(repair, envelope("x")...), bytes.Repeat(envelope("x"), 300),
		append(envelope("3"), envelope("4")...),
	} {
		if err := a.PublishRaw(Main, []string{"node", "b", "a"}, payload, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"2", "1", "3", "4"} {
		if s := receive(t, got, "a message"); s != want {
			t.Fatalf("message %q, want %q", s, want)
		}
	}
	if n := b.counters.dropped[drop.Malformed].Load(); n != 3 {
		t.Errorf("%d dropped as malformed, want 3", n)
	}
}
