package pubsub

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/certs"
)

// Each way in which TLS can go wrong says what went wrong and what helps.
func TestTLSErrorsSayWhatHelps(t *testing.T) {
	ca, other := certs.New(), certs.New()
	valid, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	begin := func(host tls.Certificate, auth tls.ClientAuthType) *broker.Broker {
		var users broker.Users
		if err := users.AddCertified("a"); err != nil {
			t.Fatal(err)
		}
		br, err := broker.Start(t.Context(), broker.Config{
			TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Users: &users,
			CertificateUsers: auth == tls.RequireAndVerifyClientCert,
			TLS:              &tls.Config{Certificates: []tls.Certificate{host}, ClientAuth: auth, ClientCAs: ca.Pool()},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopBroker(t, br) })
		return br
	}
	mutual := begin(ca.Issue("host", valid), tls.RequireAndVerifyClientCert)
	expired := begin(ca.Issue("host", past), tls.NoClientCert)
	plain, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, plain) })
	wss := "wss://" + mutual.WebSocketAddr().String()
	client := func(roots *x509.CertPool, pairs ...tls.Certificate) Option {
		return WithTLS(&tls.Config{RootCAs: roots, Certificates: pairs})
	}
	mine := ca.Issue("a", valid)
	for _, tc := range []struct {
		what, url string
		opt       Option
		kind      error
		says      string
	}{
		{"the wrong authority", mutual.URL(), client(other.Pool(), mine), ErrUnreachable, "not trusted here"},
		{"the wrong authority, WebSocket", wss, client(other.Pool(), mine), ErrUnreachable, "not trusted here"},
		{"the broker's certificate expired", expired.URL(), client(ca.Pool(), mine), ErrUnreachable, "the broker's certificate has expired"},
		{"another host name", strings.Replace(mutual.URL(), "127.0.0.1", "localhost", 1), client(ca.Pool(), mine), ErrUnreachable, "another host name"},
		{"no client certificate", mutual.URL(), client(ca.Pool()), ErrRefused, "wants a client certificate"},
		{"no client certificate, WebSocket", wss, client(ca.Pool()), ErrRefused, "wants a client certificate"},
		{"a foreign client certificate", mutual.URL(), WithTLS(&tls.Config{RootCAs: ca.Pool(), GetClientCertificate: always(other.Issue("a", valid))}), ErrRefused, "does not know the authority"},
		{"an expired client certificate", mutual.URL(), client(ca.Pool(), ca.Issue("a", past)), ErrRefused, "the client certificate has expired"},
		{"a certificate of nobody", mutual.URL(), client(ca.Pool(), ca.Issue("b", valid)), ErrRefused, "a user that it knows"},
		{"plain to TLS", strings.Replace(mutual.URL(), "mqtts", "mqtt", 1), WithTLS(nil), ErrUnreachable, "whether TLS is wanted"},
		{"TLS to plain", strings.Replace(plain.URL(), "mqtt", "mqtts", 1), client(nil), ErrUnreachable, "does not speak TLS"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			_, err := Join(testContext(t), tc.url, "a", tc.opt)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %v that says %q, got: %v", tc.kind, tc.says, err)
			}
		})
	}
	for _, url := range []string{mutual.URL(), wss} {
		p := join(t, url, "a", client(ca.Pool(), mine))
		messageToSelf(t, p)
		if err := p.Close(testContext(t)); err != nil {
			t.Error(err)
		}
	}
}

// always shows a certificate, also one that the server says it does not trust.
func always(pair tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
}
