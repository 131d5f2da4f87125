package main

import (
	"context"
	"fmt"
	"os"
	"strings"
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

// silence is how long an answer may take before a person is told of it.
const silence = 2 * time.Second

// progress tells a person at a terminal what a lock command waits for. Its
// methods may be called on nil: nobody is there to be told.
type progress struct {
	p        *pubsub.Participant
	locker   qosmutex.Locker
	resource string
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// watchProgress starts telling after a second, if standard error is a terminal or it is
// always wanted.
func watchProgress(ctx context.Context, p *pubsub.Participant, locker qosmutex.Locker, resource string, always bool) *progress {
	if !always && !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	pr := &progress{p: p, locker: locker, resource: resource, cancel: cancel}
	pr.done.Go(func() { pr.run(ctx) })
	return pr
}

// stop ends the telling and waits for its end.
func (pr *progress) stop() {
	if pr != nil {
		pr.cancel()
		pr.done.Wait()
	}
}

func (pr *progress) run(ctx context.Context) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		line := pr.line(ctx)
		if line == "" {
			timer.Reset(patience / 2)
			continue
		}
		if lasting(line) != lasting(told) && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "pubsub-node: waiting for lock %s/%s: %s\n", printable(pr.locker.Name()), printable(pr.resource), printable(line))
			told = line
		}
		timer.Reset(refresh)
	}
}

// lasting is a line without the time that is left, which passes.
func lasting(line string) string {
	if i := strings.LastIndex(line, ", in "); i >= 0 && strings.HasSuffix(line, " at most") {
		return line[:i]
	}
	return line
}

// line says what is waited for, and what is wrong if something is; "" if that is not known
// yet.
func (pr *progress) line(ctx context.Context) string {
	if !pr.p.Connected() {
		return fmt.Sprintf("the broker at %s does not answer, trying again", pr.p.URL())
	}
	place := "in line"
	if client, ok := pr.locker.(*qosmutex.Client); ok {
		st := client.Status()
		if wrong := wrongWith(&st, pr.p.URL()); wrong != "" {
			return wrong
		}
		if len(st.Waiting) > 0 {
			w := &st.Waiting[0]
			if w.Position == 0 && w.Silent > 0 {
				return ""
			}
			place = placeInLine(w.Position)
		}
	}
	states, err := lockStates(ctx, readingOf(pr.p, quiet, patience), pr.p, pr.locker.Name())
	if err != nil {
		return place
	}
	for _, st := range states {
		if st.Holder != "" && (st.Resource == pr.resource || pr.resource == qosmutex.Any) {
			return fmt.Sprintf("%s; %s holds %s since %s", place, who(st.Holder, st.Via), st.Resource, since(st.Since))
		}
	}
	return place
}

// wrongWith says why a request does not even wait in line; "" if it does.
func wrongWith(st *qosmutex.ClientStatus, url string) string {
	if len(st.Waiting) == 0 {
		return ""
	}
	switch w := &st.Waiting[0]; {
	case w.Busy != "":
		return w.Busy
	case w.Silent < silence:
		return ""
	case len(st.Servers) > 0:
		why := "the server is busy: %s has not answered for %v"
		if st.Server == "" { // nor ever before
			why = "%s has not answered for %v: it is busy, or serves other locks only, as \"pubsub-node serve NAME\" does"
		}
		return fmt.Sprintf(why, strings.Join(st.Servers, " or "), w.Silent.Round(time.Second))
	case st.Server != "":
		return fmt.Sprintf("%s, which served it, is gone: waiting for it or another to serve at %s", st.Server, url)
	}
	return "looking for who serves locks at " + url
}

func placeInLine(position int) string {
	switch position {
	case 0:
		return "in line"
	case 1:
		return "next in line"
	}
	return fmt.Sprintf("place %d in line", position)
}
