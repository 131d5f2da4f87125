package pubsub

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
)

// servers are the addresses of one broker. All lanes use the same one, and who
// finds that it does not serve moves on to the next for all.
type servers struct {
	urls []*url.URL // none with a dialer
	at   atomic.Uint64
}

// parseURLs reads the URLs of a broker, separated by commas.
func parseURLs(raw string) ([]*url.URL, error) {
	var all []*url.URL
	for one := range strings.SplitSeq(raw, ",") {
		u, err := parseURL(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

// DialBroker opens the byte stream to a broker as Join does, for programs that carry
// somebody else's MQTT: to the first of the comma-separated URLs that answers. What
// is read and written is MQTT for every scheme, ws too. config may be nil. A URL
// that is none wraps ErrInvalid.
func DialBroker(ctx context.Context, rawURL string, config *tls.Config) (net.Conn, error) {
	urls, err := parseURLs(rawURL)
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

// current names the server in use, for next.
func (s *servers) current() uint64 { return s.at.Load() }

// next leaves the server at. It does nothing when somebody else has left it.
func (s *servers) next(at uint64) { s.at.CompareAndSwap(at, at+1) }

func (s *servers) dial(ctx context.Context, config *tls.Config) (net.Conn, error) {
	return dialURL(ctx, s.urls[s.at.Load()%uint64(len(s.urls))], config)
}
