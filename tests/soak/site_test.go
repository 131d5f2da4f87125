//go:build linux

package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"padme/tests/address"
	"padme/tests/poll"
	"padme/tests/process"
	"padme/tests/proxy"
)

// site is a broker behind a proxy, with processes that live at it for the whole
// run. At one site the broker is killed again and again, at the other it lives.
type site struct {
	name   string
	dir    string
	addr   string // of the broker itself
	proxy  *proxy.Proxy
	broker *process.Process
	living []*watched
	watch  *process.Process // prints all lock events
}

// watched is a process that must live, and must not grow.
type watched struct {
	history
	*process.Process
	metrics string // URL; empty: its goroutines cannot be known
}

// newSite starts a broker and those who live at it. They are ended with the test.
func newSite(t *testing.T, bin, name string, brokerLives bool) *site {
	t.Helper()
	s := &site{name: name, dir: t.TempDir(), addr: address.Free(t)}
	s.proxy = proxy.Start(t, s.addr)
	if err := s.startBroker(bin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.broker.Kill() })
	if brokerLives {
		s.living = append(s.living, &watched{history{name: name + " broker"}, s.broker, s.brokerMetrics(t)})
	}
	live := func(what string, argv ...string) *process.Process {
		p, err := begin([]string{"PADME_BROKER=" + s.proxy.URL()}, argv...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		s.living = append(s.living, &watched{history{name: name + " " + what}, p, ""})
		return p
	}
	live("sub", bin, "sub", "news", "--id", "subscriber")
	s.watch = live("lock watch", bin, "lock", "watch", "--json", "--id", "watcher")
	live("node ls --watch", bin, "node", "ls", "--watch", "--id", "census")
	s.living = append(s.living, newMember(t, name+" member", s.proxy.URL(), ""))
	return s
}

// newMember starts a member of a lock topic, which may leak.
func newMember(t *testing.T, name, url, leak string) *watched {
	t.Helper()
	port := filepath.Join(t.TempDir(), "port")
	p, err := begin([]string{memberEnv + "=" + url, portEnv + "=" + port, leakEnv + "=" + leak}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return &watched{history{name: name}, p, metricsOf(t, port)}
}

// startBroker returns when the broker serves.
func (s *site) startBroker(bin string) error {
	ready := filepath.Join(s.dir, "ready")
	_ = os.Remove(ready)
	p, err := begin(nil, bin, "broker", "--listen", s.addr, "--metrics", "127.0.0.1:0", "--timing", "local",
		"--data", filepath.Join(s.dir, "data"), "--ready-file", ready)
	if err != nil {
		return err
	}
	s.broker = p
	for range 1000 {
		if _, err := os.Stat(ready); err == nil {
			return nil
		}
		if code, err := p.Ended(waitStep); err == nil {
			return fmt.Errorf("the broker ended with code %d: %s", code, p.Printed())
		}
	}
	return fmt.Errorf("the broker does not serve: %s", p.Printed())
}

func (s *site) brokerMetrics(t *testing.T) (url string) {
	t.Helper()
	poll.Until(t, "the broker says where its metrics are", func() bool {
		for line := range strings.Lines(s.broker.Printed()) {
			if where, ok := strings.CutPrefix(line, "metrics "); ok {
				url = strings.TrimSpace(where)
			}
		}
		return url != ""
	})
	return url
}

// metricsOf waits for the file in which a member says where its metrics are.
func metricsOf(t *testing.T, file string) (url string) {
	t.Helper()
	poll.Until(t, "a member says where its metrics are", func() bool {
		text, err := os.ReadFile(file)
		url = string(text)
		return err == nil
	})
	return url
}
