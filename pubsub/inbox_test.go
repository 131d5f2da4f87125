package pubsub

import (
	"errors"
	"fmt"
	"testing"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
	"padme/tests/poll"
)

func TestMessagesArriveInOrder(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b / ü")
	got := make(chan string, 1000)
	if _, err := b.Inbox("work", func(l Message) {
		if l.From != "a" || l.Incarnation != a.Incarnation() || l.Channel != "work" {
			t.Errorf("message %+v", l)
		}
		got <- string(l.Payload)
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := a.Send("b / ü", "work", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		if s := receive(t, got, "a message"); s != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, s)
		}
	}
}

func TestSendOwnsNothingOfThePayload(t *testing.T) {
	url := startBroker(t)
	a := join(t, url, "a")
	got := make(chan byte, 200)
	if _, err := a.Inbox("c", func(l Message) { got <- l.Payload[0] }); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1)
	for i := range 200 {
		buffer[0] = byte(i)
		if err := a.Send("a", "c", buffer); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if b := receive(t, got, "a message"); b != byte(i) {
			t.Fatalf("message %d carries %d", i, b)
		}
	}
}

func TestAChannelHasOneHandler(t *testing.T) {
	a := join(t, startBroker(t), "a")
	stop, err := a.Inbox("c", func(Message) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Inbox("c", func(Message) {}); !errors.Is(err, ErrInUse) {
		t.Fatalf("second handler: %v", err)
	}
	stop()
	if _, err := a.Inbox("c", func(Message) {}); err != nil {
		t.Fatalf("after stop: %v", err)
	}
}

func TestUnusableMessagesAreCountedByReason(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	last := make(chan struct{})
	if _, err := b.Inbox("known", func(Message) { close(last) }); err != nil {
		t.Fatal(err)
	}
	raw := func(from string, payload []byte) {
		t.Helper()
		if err := a.PublishRaw(Main, []string{"node", "b", from}, payload, false); err != nil {
			t.Fatal(err)
		}
	}
	raw("a", []byte("garbage"))
	raw("a", nil)
	raw("a", []byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	raw("a", []byte{0x98, 9, 1, 0, 0, 0, 0, 0x80, 0xc4, 0})
	raw("a", wire.Append(nil, &wire.Envelope{Kind: 99}))
	raw("a", wire.Append(nil, &wire.Envelope{Kind: wire.KindAnnounce})) // b did not ask
	if err := a.Send("b", "unknown", nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Send("b", "known", nil); err != nil {
		t.Fatal(err)
	}
	receive(t, last, "the last message")
	for r, want := range map[drop.Reason]uint64{drop.Malformed: 4, drop.Version: 1, drop.Kind: 1, drop.Channel: 1} {
		// Messages at QoS 0 may be overtaken by those at QoS 1.
		poll.Until(t, "dropped as "+r.String(), func() bool { return b.counters.dropped[r].Load() >= want })
		if n := b.counters.dropped[r].Load(); n != want {
			t.Errorf("dropped as %s: %d, want %d", r.String(), n, want)
		}
	}
}

func TestSendRefusesWhatCannotBeSent(t *testing.T) {
	a := join(t, startBroker(t), "a")
	for name, c := range map[string]struct {
		to, channel string
		size        int
		want        error
	}{
		"no destination":   {"", "c", 0, ErrInvalid},
		"control":          {"x\n", "c", 0, ErrInvalid},
		"no channel":       {"b", "", 0, ErrInvalid},
		"too large":        {"b", "c", MaxPayload + 1, ErrTooLarge},
		"as large as goes": {"b", "c", MaxPayload, nil},
	} {
		if err := a.Send(c.to, c.channel, make([]byte, c.size)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	closeNow(t, a)
	if err := a.Send("b", "c", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
