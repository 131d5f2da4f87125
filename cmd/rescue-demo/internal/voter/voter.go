// Package voter is one of those that keep who is the root of the lock topic: a voter of
// the register that all who can be the root share. It takes no part in the lock.
package voter

import (
	"context"
	"path/filepath"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

// Config is what a voter must know. It crosses processes as JSON.
type Config struct {
	URL    string   // of the broker
	Domain string   `json:",omitempty"` // at it; empty: scenario.Domain
	Name   string   // one of Voters
	Voters []string // all of them
	Dir    string   // where it keeps its file
}

const leaving = 2 * time.Second // bounds the goodbye

// Run votes until ctx ends. It waits for a broker that is not there. An error says that
// it ended before.
func Run(ctx context.Context, cfg Config) error {
	if err := run(ctx, cfg); ctx.Err() == nil {
		return err
	}
	return nil // it was told to end, whatever it was waiting for
}

func run(ctx context.Context, cfg Config) error {
	in := scenario.Config{Domain: cfg.Domain}
	p, err := scenario.Join(ctx, true, cfg.URL, cfg.Name, in.InDomain())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
		_ = p.Close(ctx)
	}()
	timing := scenario.Timing()
	v, err := inboxes.Start(p, quorum.Options{
		Voters: cfg.Voters, File: filepath.Join(cfg.Dir, cfg.Name),
		Lease: timing.TTL / 2, Drift: timing.Drift,
	})
	if err != nil {
		return err
	}
	defer v.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-p.Done():
		return p.Err()
	}
}
