package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
	"padme/tests/brokers"
	"padme/tests/cable"
)

func connectPlain(t *testing.T, url, id string, opts ...Option) *Plain {
	t.Helper()
	c, err := ConnectPlain(testContext(t), url, id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil || !errors.Is(c.Err(), ErrClosed) {
			t.Errorf("closing: %v, %v", err, c.Err())
		}
	})
	return c
}

func (c *Plain) say(t *testing.T, topic, payload string, qos byte, retain bool) {
	t.Helper()
	if err := c.Publish(testContext(t), topic, []byte(payload), qos, retain); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func (c *Plain) hear(t *testing.T, filter string) <-chan PlainMessage {
	t.Helper()
	heard := make(chan PlainMessage, 100)
	stop, err := c.Subscribe(testContext(t), filter, func(m PlainMessage) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return heard
}

func TestPlainTopicsAreThoseOfOthers(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b := connectPlain(t, "", "a", WithDialer(d.b.Dial)), connectPlain(t, "", "a", WithDialer(d.b.Dial)) // of one name
		heard := a.hear(t, "sensors/+/celsius")
		b.say(t, "sensors/roof/lux", "7", 1, false)
		b.say(t, "sensors/roof/celsius", "21.5", 1, false)
		if m := receive(t, heard, "a message"); m.Topic != "sensors/roof/celsius" || string(m.Payload) != "21.5" || m.Retained {
			t.Errorf("%+v", m)
		}
		for qos, text := range []string{"once", "at least once"} {
			b.say(t, "state", text, byte(qos), true)
			pass(time.Millisecond) // at QoS 0 it is on its way
			if m := receive(t, connectPlain(t, "", "late", WithDialer(d.b.Dial)).hear(t, "#"), "what is retained"); string(m.Payload) != text || !m.Retained {
				t.Errorf("%s: %+v", text, m)
			}
		}
		b.say(t, "state", "", 0, true)
		pass(time.Millisecond)
		late := connectPlain(t, "", "later", WithDialer(d.b.Dial)).hear(t, "#")
		pass(time.Second)
		if len(late) > 0 {
			t.Errorf("still retained: %+v", <-late)
		}
	})
}

func TestPlainComesBack(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		line := cable.New(d.b.Dial)
		a, b := connectPlain(t, "", "a", WithDialer(line.Dial)), connectPlain(t, "", "b", WithDialer(d.b.Dial))
		heard := a.hear(t, "x")
		line.Cut()
		pass(time.Second)
		if err := a.Publish(testContext(t), "x", nil, 1, false); !errors.Is(err, ErrOffline) {
			t.Errorf("published while cut off: %v", err)
		}
		line.Restore()
		pass(10 * time.Second)
		b.say(t, "x", "again", 0, false)
		receive(t, heard, "a message after the reconnection")
	})
}

func TestPlainPublishesMoreThanWaits(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a := connectPlain(t, "", "a", WithDialer(d.b.Dial))
		for range 2 * connection.MaxQueued {
			if err := a.Publish(testContext(t), "x", []byte("much"), 1, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPlainSaysWhatIsWrong(t *testing.T) {
	url := startWithRoles(t)
	c := connectPlain(t, url, "client", as("client"))
	for topic, says := range map[string]string{
		"": "empty", "a/+": "contains + or #", "a\x00b": "NUL", "\xff": "UTF-8", strings.Repeat("a", maxTopic+1): "65535",
	} {
		if err := c.Publish(testContext(t), topic, nil, 0, false); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.10q: %v", topic, err)
		}
	}
	if err := c.Publish(testContext(t), "a", nil, 2, false); !errors.Is(err, ErrInvalid) {
		t.Errorf("QoS 2: %v", err)
	}
	if err := c.Publish(testContext(t), "a", make([]byte, MaxPayload+1), 0, false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too much: %v", err)
	}
	for filter, want := range map[string]error{"a/#/b": ErrInvalid, "a+": ErrInvalid, "": ErrInvalid, "elsewhere": ErrRefused} {
		if _, err := c.Subscribe(testContext(t), filter, func(PlainMessage) {}); !errors.Is(err, want) {
			t.Errorf("%q: %v", filter, err)
		}
	}
	if _, err := ConnectPlain(testContext(t), url, "x", WithCredentials("client", "guess")); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := ConnectPlain(testContext(t), "gopher://x", "x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a wrong URL: %v", err)
	}
}

func TestPlainOnEveryBroker(t *testing.T) {
	url := startBroker(t)
	a, b := connectPlain(t, url, "a"), connectPlain(t, url, "b")
	here := brokers.Domain(t)
	heard := a.hear(t, here+"/+/celsius")
	for qos := range byte(2) {
		b.say(t, here+"/roof/celsius", "21", qos, qos == 1)
		if m := receive(t, heard, "a message"); m.Topic != here+"/roof/celsius" || string(m.Payload) != "21" || m.Retained {
			t.Errorf("QoS %d: %+v", qos, m)
		}
	}
	if m := receive(t, b.hear(t, here+"/roof/celsius"), "what is retained"); !m.Retained {
		t.Errorf("%+v", m)
	}
	b.say(t, here+"/roof/celsius", "", 1, true)
}
