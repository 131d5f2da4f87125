package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// lingering is for how long, and for how many bytes, a client whose handshake or request was
// refused is listened to: closing at once would reset the connection and cost it the answer
// that says why.
const (
	lingering      = time.Second
	lingeringBytes = 64 << 10
)

// shakeHands does the TLS handshake, if the connection wants one, under the
// CONNECT's deadline. The error says what the client did wrong.
func (c *conn) shakeHands() error {
	secure, ok := c.tls()
	if !ok {
		return nil
	}
	err := secure.Handshake()
	if err == nil {
		return nil
	}
	c.linger()
	if plain := new(tls.RecordHeaderError); errors.As(err, plain) {
		return fmt.Errorf("the client does not speak TLS, as this port does: %w", err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

// linger listens to a client that was told what it did wrong, and is to be closed.
func (c *conn) linger() {
	g := c.guest()
	if g == nil {
		return
	}
	g.giveTurn()
	if raw, ok := g.Conn.(*net.TCPConn); ok && raw.CloseWrite() == nil {
		_ = raw.SetReadDeadline(time.Now().Add(lingering))
		_, _ = io.CopyN(io.Discard, raw, lingeringBytes)
	}
}

// tls returns the TLS connection below, also that of a WebSocket.
func (c *conn) tls() (*tls.Conn, bool) {
	below := c.Conn
	if ws, ok := below.(*webSocketConn); ok {
		below = ws.Conn
	}
	secure, ok := below.(*tls.Conn)
	return secure, ok
}

// certificateName returns the common name of the certificate that the client has
// shown and TLS has verified; false when it has shown none.
func (c *conn) certificateName() (string, bool) {
	secure, ok := c.tls()
	if !ok {
		return "", false
	}
	chains := secure.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return "", false
	}
	return chains[0][0].Subject.CommonName, true
}

// checkCertificateUsers refuses a configuration in which no client's certificate
// would be verified, or nobody would be known by its name.
func (c Config) checkCertificateUsers() error {
	switch {
	case !c.CertificateUsers:
		return nil
	case c.Users == nil:
		return fmt.Errorf("%w: CertificateUsers without Users: list who may connect", ErrInvalidConfig)
	case c.TLS == nil || c.TLS.ClientAuth < tls.VerifyClientCertIfGiven:
		return fmt.Errorf("%w: CertificateUsers needs TLS.ClientAuth to verify certificates, and TLS.ClientCAs", ErrInvalidConfig)
	}
	return nil
}
