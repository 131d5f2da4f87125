package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"padme/pubsub"
	"padme/qosmutex"
)

// rootPresence is what is read of the presence of a root.
type rootPresence struct {
	ID    string `json:"-"`
	Alive bool   `json:"alive"`
}

// deadRoots returns which of these roots are not alive, and tells so on standard error:
// what they have published stays with the broker, and nobody changes it any more. Each is
// asked for by its topic, as some brokers return nothing that they retain for a wildcard.
func (s *session) deadRoots(ctx context.Context, p *pubsub.Participant, roots []string) (map[string]bool, error) {
	dead := map[string]bool{}
	var topics [][]string
	for _, id := range roots {
		if id != "" && !dead[id] {
			dead[id] = true // until its presence says otherwise
			topics = append(topics, []string{"presence", id})
		}
	}
	if len(topics) == 0 {
		return nil, nil
	}
	watch := func(ctx context.Context) iter.Seq2[rootPresence, error] {
		return watchJSON(ctx, p, func(levels []string, pr *rootPresence) bool {
			pr.ID = levels[1]
			return true
		}, topics...)
	}
	if err := snapshot(ctx, s.reading(p), watch, func(pr rootPresence) { dead[pr.ID] = !pr.Alive }); err != nil {
		return nil, err
	}
	var names []string
	for id, is := range dead {
		if is {
			names = append(names, id)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "pubsub-node: root %s is not alive, so what is shown of its locks is of before: %s\n", printable(strings.Join(names, " and root ")), s.anotherRoot())
	}
	return dead, nil
}

// anotherRoot says what to do where a root is not alive. The broker answers, so it is not
// the broker that has to be started.
func (s *session) anotherRoot() string {
	_, flags := s.scope()
	return fmt.Sprintf("start \"pubsub-node serve%s\", with --voters if it was a voter, or wait until another one takes over", flags)
}

// shownState is one line of `lock ls --json`.
type shownState struct {
	qosmutex.State
	RootDead bool `json:"root_dead,omitempty"` // so this is of before
}

// shownView is `lock show --json`.
type shownView struct {
	qosmutex.View
	RootDead bool `json:"root_dead,omitempty"` // so this is of before
}

// rootsOf are the roots that states name.
func rootsOf(states []qosmutex.State) []string {
	roots := make([]string, len(states))
	for i := range states {
		roots[i] = states[i].Root
	}
	return roots
}
