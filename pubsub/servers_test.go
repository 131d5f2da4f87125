package pubsub

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"padme/tests/cable"
	"padme/tests/proxy"
)

// A cluster is played by two addresses of one broker.
func TestAnotherServerIsTriedWhenOneIsGone(t *testing.T) {
	url := startBroker(t)
	first, second := proxy.Start(t, url), proxy.Start(t, url)
	first.Cut()
	a := join(t, first.URL()+", "+second.URL(), "a")
	b := join(t, url, "b")
	ups := make(chan bool, 10)
	a.Notify(func(up bool) { ups <- up })
	messages := make(chan struct{}, 1)
	if _, err := a.Inbox("c", func(Message) { messages <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for _, next := range []struct{ gone, back *proxy.Proxy }{{second, first}, {first, second}} {
		next.back.Restore()
		next.gone.Cut()
		if receive(t, ups, "loss") || !receive(t, ups, "reconnection") {
			t.Fatal("not down, then up")
		}
		if err := b.Send("a", "c", nil); err != nil {
			t.Fatal(err)
		}
		receive(t, messages, "a message by the other server")
	}
	third := proxy.Start(t, url)
	third.Cut()
	if _, err := Join(testContext(t), first.URL()+","+third.URL(), "c", at(t)...); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Join without a server: %v", err)
	}
	if _, err := Join(testContext(t), url+",", "c"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "part 2") {
		t.Errorf("Join with an empty URL: %v", err)
	}
}

func TestDialBrokerTakesTheServerThatAnswers(t *testing.T) {
	url := startBroker(t)
	c, err := DialBroker(testContext(t), "mqtt://127.0.0.1:1,"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if want := strings.TrimPrefix(url, "mqtt://"); c.RemoteAddr().String() != want {
		t.Errorf("connected to %s, want %s", c.RemoteAddr(), want)
	}
	if _, err := DialBroker(testContext(t), "http://host", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a URL of something else: %v", err)
	}
	canceled, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := DialBroker(canceled, url, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context has ended: %v", err)
	}
}

func TestAWebServerIsNoBroker(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := Join(testContext(t), "ws"+strings.TrimPrefix(s.URL, "http"), "a")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no broker's WebSocket") || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

// Whoever looks for why a connection is lost again and again finds it in the log.
func TestALossIsLoggedWithWhatWasOnItsWay(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		var log bytes.Buffer // goroutines of the bubble write to it by turns
		c := cable.New(d.b.Dial)
		p := join(t, "", "a", WithDialer(c.Dial), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		c.Mute(true)
		if err := p.Send("b", "c", make([]byte, 70_000)); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		c.Cut()
		pass(time.Millisecond)
		if text := log.String(); !strings.Contains(text, `msg="connection lost"`) || !strings.Contains(text, `"largest unacknowledged"=700`) {
			t.Error(text)
		}
	})
}
