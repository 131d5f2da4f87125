package broker_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/certs"
	"padme/tests/poll"
)

// mutual is a broker that knows its clients by their certificates.
func mutual(t *testing.T, ca *certs.Authority, metrics prometheus.Registerer) *broker.Broker {
	t.Helper()
	users := cast(t)
	for _, name := range []string{"carol", "meter"} {
		if err := users.AddCertified(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := users.Grant("meter", broker.Observer); err != nil {
		t.Fatal(err)
	}
	return start(t, broker.Config{
		TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Users: users, CertificateUsers: true, Metrics: metrics,
		TLS: &tls.Config{
			Certificates: []tls.Certificate{ca.Issue("host", time.Now().Add(time.Hour))},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
		},
	})
}

func showing(ca *certs.Authority, pairs ...tls.Certificate) option {
	return trust(&tls.Config{RootCAs: ca.Pool(), Certificates: pairs})
}

func TestACertificateIsAUser(t *testing.T) {
	ca := certs.New()
	b := mutual(t, ca, nil)
	root := connect(t, inProcess(b), as("root", "root"))
	root.subscribe("#", 1)
	valid := time.Now().Add(time.Hour)
	for _, url := range []string{b.URL(), "wss://" + b.WebSocketAddr().String()} {
		carol := connect(t, at(url), showing(ca, ca.Issue("carol", valid)))
		carol.publish("padme/v1/default/presence/bob", "forged", 1, false)
		carol.publish("padme/v1/default/presence/carol", "true", 1, false)
		if got := root.receive(1); got[0] != "true" {
			t.Errorf("over %s carol has written %q", url, got)
		}
		root.drain()
	}
	// The role is that of the name; the password of the name's owner does not help
	// whose certificate has another, and no password opens an account without one.
	meter := connect(t, at(b.URL()), showing(ca, ca.Issue("meter", valid)))
	meter.publish("padme/v1/default/presence/meter", "forged", 1, false)
	for what, opts := range map[string][]option{
		"another's name":       {at(b.URL()), showing(ca, ca.Issue("carol", valid)), as("alice", "alice")},
		"a name not listed":    {at(b.URL()), showing(ca, ca.Issue("mallory", valid))},
		"an empty name":        {at(b.URL()), showing(ca, ca.Issue("", valid)), as("alice", "alice")},
		"a password for carol": {inProcess(b), as("carol", "!")},
	} {
		if _, err := dial(t, opts...); err == nil || !strings.Contains(err.Error(), "not Authorized") {
			t.Errorf("%s: %v", what, err)
		}
	}
	root.publish("marker", "end", 1, false)
	if got := root.receive(1); got[0] != "end" {
		t.Errorf("the meter has written %q", got)
	}
}

// The account of a part of the broker's own process is for nobody outside, whatever an authority
// signs: neither its certificate nor its password.
func TestNobodyOutsideHasAnInternalAccount(t *testing.T) {
	ca, users := certs.New(), cast(t)
	if err := users.AddInternal("broker-host", "secret", broker.Gateway); err != nil {
		t.Fatal(err)
	}
	if err := users.AddInternal("alice", "secret", broker.Gateway); !errors.Is(err, broker.ErrInvalidUser) {
		t.Errorf("a user of the file: %v", err)
	}
	b := start(t, broker.Config{
		TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Users: users, CertificateUsers: true,
		TLS: &tls.Config{
			Certificates: []tls.Certificate{ca.Issue("host", time.Now().Add(time.Hour))},
			ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: ca.Pool(),
		},
	})
	connect(t, inProcess(b), as("broker-host", "secret"))
	pair := ca.Issue("broker-host", time.Now().Add(time.Hour))
	for _, url := range []string{b.URL(), "wss://" + b.WebSocketAddr().String()} {
		for what, opts := range map[string][]option{
			"certificate":              {showing(ca, pair)},
			"certificate and password": {showing(ca, pair), as("broker-host", "secret")},
			"password":                 {showing(ca), as("broker-host", "secret")},
		} {
			if _, err := dial(t, append(opts, at(url))...); err == nil || !strings.Contains(err.Error(), "not Authorized") {
				t.Errorf("over %s by %s: %v", url, what, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := users.Save(file); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(file); err != nil || strings.Contains(string(saved), "broker-host") || !strings.Contains(string(saved), "alice") {
		t.Errorf("saved %s, %v", saved, err)
	}
}

// A browser shows its user's certificate for every page that connects.
func TestForeignPagesDoNotRideOnACertificate(t *testing.T) {
	ca := certs.New()
	b := mutual(t, ca, nil)
	at := b.WebSocketAddr().String()
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: &tls.Config{
		RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue("carol", time.Now().Add(time.Hour))},
	}}
	for origin, in := range map[string]bool{"": true, "https://127.0.0.1:1": true, "https://evil.example": false, "http://localhost": false, "null": false} {
		head := http.Header{}
		if origin != "" {
			head.Set("Origin", origin)
		}
		ws, res, err := d.DialContext(t.Context(), "wss://"+at, head)
		if res != nil {
			res.Body.Close()
		}
		if err == nil {
			ws.Close()
		}
		if (err == nil) != in {
			t.Errorf("origin %q: %v, want to be let in: %v", origin, err, in)
		}
	}
}

func TestStrangersOnATLSPort(t *testing.T) {
	ca, other := certs.New(), certs.New()
	registry := prometheus.NewRegistry()
	b := mutual(t, ca, registry)
	valid := time.Now().Add(time.Hour)
	for i, o := range []option{
		showing(ca),
		showing(ca, other.Issue("carol", valid)),
		showing(ca, ca.Issue("carol", time.Now().Add(-time.Hour))),
	} {
		if _, err := dial(t, at(b.URL()), o); err == nil {
			t.Errorf("case %d was let in", i)
		}
	}
	plain := raw(t, b)
	plain.send(packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("plain")))
	plain.gone()
	want := func() float64 { return gather(t, registry)["padme_broker_cut_total/tls"] }
	poll.UntilOr(t, func() bool { return want() == 4 }, func() string { return "not all were counted" })
	connect(t, at(b.URL()), showing(ca, ca.Issue("carol", valid)))

	// Likewise over WebSocket.
	d := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, Subprotocols: []string{"mqtt"}}
	ws, resp, err := d.DialContext(t.Context(), "wss://"+b.WebSocketAddr().String(), http.Header{})
	if err == nil {
		resp.Body.Close()
		ws.Close()
		t.Error("a WebSocket without a certificate was let in")
	}
	poll.UntilOr(t, func() bool { return want() == 5 }, func() string { return "the WebSocket was not counted" })
}

func TestCertificateUsersNeedVerification(t *testing.T) {
	server, _ := certificates(t)
	for _, c := range []broker.Config{
		{CertificateUsers: true},
		{CertificateUsers: true, TLS: &tls.Config{Certificates: server.Certificates, ClientAuth: tls.RequireAndVerifyClientCert}},
		{CertificateUsers: true, Users: cast(t), TLS: server},
		{CertificateUsers: true, Users: cast(t), TLS: &tls.Config{Certificates: server.Certificates, ClientAuth: tls.RequireAnyClientCert}},
	} {
		if b, err := broker.Start(t.Context(), c); err == nil {
			stop(t, b)
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestWhatEndedAConnectionIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry, Users: cast(t), Limits: broker.Limits{ConnectTimeout: time.Second}})
	for _, opening := range []string{"\x30\x02\x00\x00", "\x10\xff\xff\xff\x7f", ""} {
		c := raw(t, b)
		c.send([]byte(opening))
		c.gone()
	}
	inside := raw(t, b)
	inside.connect("big", "alice", "", "")
	_, _ = inside.Write([]byte("\x30\xff\xff\xff\x7f"))
	inside.gone()
	broken := raw(t, b)
	broken.connect("broken", "alice", "", "")
	broken.send(packet(0x82, []byte{0, 1, 9}, text("a")))
	broken.gone()
	_, _ = dial(t, inProcess(b), as("alice", "alice"), will("padme/v1/default/presence/bob", "dead", true))
	want := map[string]float64{
		"padme_broker_cut_total/protocol": 2, "padme_broker_cut_total/oversized": 2, "padme_broker_cut_total/timeout": 1,
		"padme_broker_cut_total/tls": 0, "padme_broker_refused_total/will": 1, "padme_broker_refused_total/connect": 0,
	}
	var got map[string]float64
	poll.UntilOr(t, func() bool {
		got = gather(t, registry)
		for name, v := range want {
			if got[name] != v {
				return false
			}
		}
		return true
	}, func() string {
		for name := range got {
			if _, ok := want[name]; !ok {
				delete(got, name)
			}
		}
		return fmt.Sprint(got)
	})
}
