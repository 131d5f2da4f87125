package connection

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"padme/pubsub/internal/failure"
)

// Servers are the addresses of one broker. All lanes use the same one, and who
// finds that it does not serve moves on to the next for all.
type Servers struct {
	URLs []*url.URL // none with a dialer
	at   atomic.Uint64
}

// ParseURLs reads the URLs of a broker, separated by commas. With a TLS configuration none
// may be without TLS: who gives one does not want to be overheard.
func ParseURLs(raw string, config *tls.Config) ([]*url.URL, error) {
	var all []*url.URL
	for i, one := range strings.Split(raw, ",") {
		if strings.TrimSpace(one) == "" && strings.Contains(raw, ",") {
			return nil, fmt.Errorf("%w: broker URL: part %d of %q is empty: leave out the comma that is too many", failure.ErrInvalid, i+1, raw)
		}
		u, err := parseURL(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		if config != nil && !encrypted(u) {
			return nil, fmt.Errorf("%w: broker URL %q is one without TLS: write mqtts or wss, or leave out what is for TLS (WithTLS, --cafile, --cert and --key)", failure.ErrInvalid, one)
		}
		all = append(all, u)
	}
	return all, nil
}

// Dial opens the byte stream to the first of the comma-separated URLs that answers. What is
// read and written is MQTT for every scheme. config may be nil.
func Dial(ctx context.Context, rawURL string, config *tls.Config) (net.Conn, error) {
	urls, err := ParseURLs(rawURL, config)
	if err != nil {
		return nil, err
	}
	var all error
	for _, u := range urls {
		c, err := dialURL(ctx, u, config)
		if err == nil {
			return c, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// Current names the server in use, for Next.
func (s *Servers) Current() uint64 { return s.at.Load() }

// Next leaves the server at. It does nothing when somebody else has left it.
func (s *Servers) Next(at uint64) { s.at.CompareAndSwap(at, at+1) }

// Dial opens the byte stream to the server in use.
func (s *Servers) Dial(ctx context.Context, config *tls.Config) (net.Conn, error) {
	return dialURL(ctx, s.URLs[s.at.Load()%uint64(len(s.URLs))], config)
}
