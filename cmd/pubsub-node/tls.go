package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// clientTLS returns nil when no flag asks for anything special.
func (s *session) clientTLS() (*tls.Config, error) {
	if s.ca == "" && s.cert == "" && s.key == "" {
		return nil, nil
	}
	config, err := s.ownCertificate()
	if err == nil && s.ca != "" {
		config.RootCAs, err = s.authority()
	}
	return config, err
}

// serverTLS returns nil when there is no certificate. With an authority, each
// client must show a certificate of it.
func (s *session) serverTLS() (*tls.Config, error) {
	if s.cert == "" && s.key == "" {
		if s.ca != "" {
			return nil, usageError("--cafile without --cert and --key: the broker needs a certificate of its own to ask clients for theirs")
		}
		return nil, nil
	}
	config, err := s.ownCertificate()
	if err == nil && s.ca != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs, err = s.authority()
	}
	return config, err
}

func (s *session) ownCertificate() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (s.cert == "") != (s.key == "") {
		return nil, usageError("--cert and --key belong together: give both")
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s, --key %s: %w", s.cert, s.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (s *session) authority() (*x509.CertPool, error) {
	pem, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, fmt.Errorf("--cafile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--cafile %s: no PEM certificate in it", s.ca)
	}
	return pool, nil
}

// certificateName is the common name in the certificate of --cert, "" if there is
// none: a broker may take it for the user, whose name is the participant's id.
func (s *session) certificateName() string {
	if s.cert == "" {
		return ""
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil || pair.Leaf == nil {
		return "" // clientTLS says what is wrong
	}
	return pair.Leaf.Subject.CommonName
}
