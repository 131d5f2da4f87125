package connection

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"padme/pubsub/internal/failure"
)

// errShake marks an error that came when the TCP connection stood.
var errShake = errors.New("TLS handshake")

func shakeError(err error) error {
	var op *net.OpError
	if err == nil || errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return fmt.Errorf("%w: %w", errShake, err)
}

// tlsRemedy says what a failed TLS handshake means and what to do about it, "" for
// any other error.
func tlsRemedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "the broker's certificate is signed by an authority that is not trusted here: trust the authority's certificate (RootCAs of WithTLS, --cafile)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the broker's certificate has expired or is not valid yet: renew it, or correct this machine's clock"
	case errors.As(err, &host):
		return "the broker's certificate is for another host name: use a name that stands in it"
	case errors.As(err, &plain):
		return "the port does not speak TLS: use mqtt or ws in the URL, or the broker's TLS port"
	case brokenOff(err):
		return "the port does not speak TLS, or too many wait there to log in: use mqtt or ws in the URL, or the broker's TLS port, or try again"
	}
	return alertRemedy(err)
}

// brokenOff reports whether somebody listened and then closed the connection, as
// our broker does when it is spoken to in TLS on a port that has none.
func brokenOff(err error) bool {
	var op *net.OpError
	return errors.Is(err, errShake) && (errors.Is(err, io.EOF) || errors.As(err, &op) && op.Op == "read" && !op.Timeout() && alertRemedy(err) == "")
}

// alertRemedy reads an alert of the broker. crypto/tls tells its kind by its text
// only.
func alertRemedy(err error) string {
	text := err.Error()
	for alert, remedy := range map[string]string{
		"tls: certificate required":          "the broker wants a client certificate: give one (Certificates of WithTLS, --cert and --key)",
		"tls: bad certificate":               "the broker does not accept the client certificate, or got none: give one of its authority (--cert and --key)",
		"tls: unknown certificate authority": "the broker does not know the authority of the client certificate: give one that it trusts (--cert and --key)",
		"tls: expired certificate":           "the client certificate has expired: renew it",
	} {
		if strings.Contains(text, "remote error: "+alert) {
			return remedy
		}
	}
	return ""
}

// tlsKind is ErrRefused for what the broker said of our certificate, which no
// further attempt fixes, and ErrUnreachable otherwise.
func tlsKind(err error) error {
	if alertRemedy(err) != "" {
		return failure.ErrRefused
	}
	return failure.ErrUnreachable
}
