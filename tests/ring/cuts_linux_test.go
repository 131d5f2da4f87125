package ring

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"padme/tests/extent"
)

var (
	cutFor   = flag.Duration("cuts", 3*time.Second, "how long TestCuts cuts connections")
	cutSizes = flag.Int("cutring", 40, "how many participants it has")
	restarts = flag.Int("restarts", 1, "how often it restarts the broker meanwhile")
)

const (
	// cutEvery is how long a connection lives, on average, while connections are cut.
	cutEvery = time.Second
	// wholeAfter is how long after that each sample must have come: forgotten participants
	// are told for dead after 15 s.
	wholeAfter = 15 * time.Second
)

// TestCuts has connections of a ring cut at random, and its broker restarted meanwhile,
// and then sends a sample through each match.
func TestCuts(t *testing.T) {
	extent.NotShort(t, "real processes")
	ctx, cancel := context.WithTimeout(t.Context(), patience+30*time.Second)
	defer cancel()
	s := &server{t: t}
	s.start()
	defer func() { s.stop() }()
	parts := launchAll(ctx, t, s.url, *cutSizes, *cutFor)
	_, _ = everyone(t, parts, "there"), everyone(t, parts, "matched")
	for _, p := range parts { // all have matched
		if _, err := p.in.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	for range *restarts {
		time.Sleep(*cutFor / time.Duration(*restarts+1))
		s.stop()
		s.start()
	}
	_ = everyone(t, parts, "quiet")
	began := time.Now()
	_ = everyone(t, parts, "whole")
	t.Logf("%d participants: whole %v after the last connection was cut", *cutSizes, time.Since(began))
	for _, p := range parts {
		p.end(t)
	}
}

// knife cuts connections.
type knife struct {
	mu    sync.Mutex
	conns map[*knifed]struct{}
}

type knifed struct {
	net.Conn
	k *knife
}

func (k *knife) dial(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.conns == nil {
			k.conns = map[*knifed]struct{}{}
		}
		c := &knifed{conn, k}
		k.conns[c] = struct{}{}
		return c, nil
	}
}

func (c *knifed) Close() error {
	c.k.mu.Lock()
	delete(c.k.conns, c)
	c.k.mu.Unlock()
	return c.Conn.Close()
}

// cut cuts each connection now and then.
func (k *knife) cut(d time.Duration) {
	const step = 10 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(step) {
		k.mu.Lock()
		for c := range k.conns {
			if rand.Float64() < float64(step)/float64(cutEvery) {
				_ = c.Conn.Close()
			}
		}
		k.mu.Unlock()
	}
}

// andThen cuts connections, and has a sample pass each match afterwards.
func (k *knife) andThen(ctx context.Context, d time.Duration, members []*member) error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	k.cut(d)
	say("quiet")
	ctx, cancel := context.WithTimeout(ctx, wholeAfter)
	defer cancel()
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = m.passes(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	say("whole")
	_, err := io.Copy(io.Discard, os.Stdin) // others may need to hear from these
	return err
}

// passes writes and awaits a sample.
func (m *member) passes(ctx context.Context) error {
	err := m.w.WaitMatched(ctx, 1)
	if err == nil {
		err = m.w.Write(ctx, value{1})
	}
	if err == nil {
		err = m.w.WaitAcked(ctx)
	}
	for s, ended := range m.r.Samples(ctx) {
		if ended == nil && s.Data.N == 1 {
			return err
		}
	}
	return fmt.Errorf("%s: %w, no sample came: %d and %d are matched, and it is connected: %t", m.p.ID(), errors.Join(err, ctx.Err()), len(m.w.Matched()), len(m.r.Matched()), m.p.Connected())
}
