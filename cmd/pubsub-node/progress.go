package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"padme/pubsub"
	"padme/qosmutex"
)

const (
	// patience is how long a person waits without wondering why.
	patience = time.Second
	// refresh is how often the reason for the waiting is looked at again.
	refresh = 5 * time.Second
)

// progress tells a person at a terminal what a lock command waits for. Its
// methods may be called on nil: nobody is there to be told.
type progress struct {
	name, resource string
	cancel         context.CancelFunc
	done           sync.WaitGroup

	mu   sync.Mutex
	open bool
}

// watchProgress starts telling after a second, if standard error is a terminal.
func watchProgress(ctx context.Context, p *pubsub.Participant, name, resource string) *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	pr := &progress{name: name, resource: resource, cancel: cancel}
	pr.done.Go(func() { pr.run(ctx, p) })
	return pr
}

// opened: from now on it is the queue that is waited for, no longer the root.
func (pr *progress) opened() {
	if pr == nil {
		return
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.open = true
}

// stop ends the telling and waits for its end.
func (pr *progress) stop() {
	if pr != nil {
		pr.cancel()
		pr.done.Wait()
	}
}

func (pr *progress) run(ctx context.Context, p *pubsub.Participant) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if line := pr.line(ctx, p); line != told && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "pubsub-node: %s\n", printable(line))
			told = line
		}
		timer.Reset(refresh)
	}
}

func (pr *progress) line(ctx context.Context, p *pubsub.Participant) string {
	pr.mu.Lock()
	open := pr.open
	pr.mu.Unlock()
	lock := pr.name + "/" + pr.resource
	switch {
	case !p.Connected():
		return fmt.Sprintf("waiting for lock %s: the broker at %s does not answer, trying again", lock, p.URL())
	case !open:
		return fmt.Sprintf("waiting for lock %s: looking for its root", lock)
	}
	states, err := lockStates(ctx, p, quiet, pr.name)
	if err != nil {
		return "waiting for lock " + lock
	}
	for _, st := range states {
		if st.Holder != "" && (st.Resource == pr.resource || pr.resource == qosmutex.Any) {
			return fmt.Sprintf("waiting for lock %s: %s holds %s since %s, %d waiting", lock, st.Holder, st.Resource, st.Since.Local().Format(time.TimeOnly), st.Waiting)
		}
	}
	return "waiting for lock " + lock
}
