package pubsub

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/proxy"
)

func TestABrokerWithAccessRulesLetsMembersDoTheirWork(t *testing.T) {
	var users broker.Users
	for _, id := range []string{"a b", "b"} {
		if err := users.Add(id, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	br, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, br) })
	a := join(t, br.URL(), "a b", WithCredentials("a b", "secret"))
	b := join(t, br.URL(), "b", WithCredentials("b", "secret"))
	q := QoS{Reliability: Reliable, Durability: TransientLocal}
	w := writerOf(t, topicOf[int](t, a, "n"), q)
	r := readerOf(t, topicOf[int](t, b, "n"), q)
	awaitReaders(t, w, 1)
	write(t, w, 1)
	collect(t, r, 1)
	if err := w.WaitAcked(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.PublishRaw(Side, []string{"lock", "t", "r", "state"}, []byte("{}"), true); err != nil {
		t.Fatal(err)
	}

	if _, err := b.SubscribeRaw(testContext(t), Main, []string{"node", "a b", "+"}, func(RawMessage) {}); !errors.Is(err, ErrRefused) {
		t.Errorf("reading somebody else's inbox: %v", err)
	}
	for _, opts := range [][]Option{nil, {WithCredentials("b", "wrong")}, {WithCredentials("a b", "secret")}} {
		if _, err := Join(testContext(t), br.URL(), "b", opts...); !errors.Is(err, ErrRefused) {
			t.Errorf("Join without being allowed to: %v", err)
		}
	}
}

func TestRefusedCredentialsEndAParticipant(t *testing.T) {
	var users broker.Users
	if err := users.Add("a", "secret"); err != nil {
		t.Fatal(err)
	}
	br, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, br) })
	wall := proxy.Start(t, br.URL())
	a := join(t, wall.URL(), "a", WithCredentials("a", "secret"))
	if err := users.Add("a", "changed"); err != nil {
		t.Fatal(err)
	}
	wall.Break()
	receive(t, a.Done(), "the end")
	if !errors.Is(a.Err(), ErrRefused) {
		t.Error(a.Err())
	}
}

func TestEveryTransportCarriesMessages(t *testing.T) {
	own := httptest.NewTLSServer(nil) // for its certificate
	defer own.Close()
	client := own.Client().Transport.(*http.Transport).TLSClientConfig
	for name, config := range map[string]broker.Config{
		"tcp":  {TCP: "127.0.0.1:0"},
		"ws":   {WebSocket: "127.0.0.1:0"},
		"tls":  {TCP: "127.0.0.1:0", TLS: own.TLS},
		"wss":  {WebSocket: "127.0.0.1:0", TLS: own.TLS},
		"pipe": {},
	} {
		t.Run(name, func(t *testing.T) {
			br, err := broker.Start(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stopBroker(t, br) })
			var opts []Option
			switch {
			case config.TLS != nil:
				opts = append(opts, WithTLS(client))
			case name == "pipe": // which the URL says nothing of
				opts = append(opts, WithTLS(client), WithDialer(br.Dial))
			default:
				_, joining := Join(testContext(t), br.URL(), "a", WithTLS(client))
				_, dialing := DialBroker(testContext(t), "mqtts://127.0.0.1,"+br.URL(), client)
				if !errors.Is(joining, ErrInvalid) || !errors.Is(dialing, ErrInvalid) {
					t.Errorf("with a TLS configuration: %v, %v", joining, dialing)
				}
			}
			messageToSelf(t, join(t, br.URL(), "a", opts...))
			if config.TLS != nil {
				if _, err := Join(testContext(t), br.URL(), "b"); !errors.Is(err, ErrUnreachable) {
					t.Errorf("without trusting the certificate: %v", err)
				}
			}
		})
	}
}

func messageToSelf(t *testing.T, p *Participant) {
	t.Helper()
	got := make(chan struct{}, 1)
	if _, err := p.Inbox("c", func(Message) { got <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(p.ID(), "c", make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(20 * time.Second):
		t.Fatal("no message")
	}
}

// What fills the room for samples at a broker that cannot tell users apart does not keep
// participants from joining; when nothing fits, the error says so.
func TestRetainedSamplesLeaveRoomToJoin(t *testing.T) {
	registry := prometheus.NewRegistry()
	br, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{Retained: 40_000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, br) })
	a := join(t, br.URL(), "a")
	refused := func() (n float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "padme_broker_limited_total" && m.GetLabel()[0].GetValue() == "max-retained" {
					n = m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	fill := func(family string) { // with as many levels as a presence, and less in it
		before := refused()
		for i := 0; refused() < before+3; i++ {
			if err := a.PublishRaw(Side, []string{family, strconv.Itoa(i)}, []byte("x"), true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for was := -1.0; was != refused(); { // or what is still on its way would count for the next family
			was = refused()
			time.Sleep(200 * time.Millisecond)
		}
	}
	fill("data")
	join(t, br.URL(), "b")
	fill("lock")
	if _, err := Join(testContext(t), br.URL(), "c"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "as much as the broker allows") {
		t.Errorf("Join where nothing more is retained: %v", err)
	}
}
