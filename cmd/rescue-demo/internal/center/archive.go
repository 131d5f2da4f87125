package center

import (
	"context"
	"errors"
	"os"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/voter"
)

// archive is where the run keeps who is the root of the lock topic: a voter, which is a
// participant of its own and outlives the others.
type archive struct {
	dir   string
	stop  context.CancelFunc
	ended chan error
}

func openArchive(cfg scenario.Config, url string) (*archive, error) {
	dir, err := os.MkdirTemp("", "rescue-demo-")
	if err != nil {
		return nil, err
	}
	a := &archive{dir: dir, ended: make(chan error, 1)}
	voters := cfg.Voters()
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	go func() {
		a.ended <- voter.Run(ctx, voter.Config{URL: url, Domain: cfg.Domain, Name: voters[0], Voters: voters, Dir: dir})
	}()
	return a, nil
}

// close waits for the voter. The error tells why it ended before.
func (a *archive) close() error {
	a.stop()
	return errors.Join(<-a.ended, os.RemoveAll(a.dir))
}
