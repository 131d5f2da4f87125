package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

const (
	// removeAgain is the pause between two requests to remove a lock.
	removeAgain = 300 * time.Millisecond
	// removeTakes bounds the removal: servers that share a lock leave it one after the other.
	removeTakes = 4 * time.Second
	// removeSettles, times the TTL, is how much longer that may take once a server has said
	// that it cannot yet: a root that has just begun knows after a TTL who holds.
	removeSettles = 2
)

func newLockRemove(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Forget the settings of a lock that nobody uses",
		Long: `rm has those that serve locks let go of the lock NAME: what was declared of it is
forgotten, and "lock ls" and "lock show" do not show it any more. Whoever names it later
gets a new lock with the default settings, but for its TTL, which never changes, and
fences above those that were handed out.

It is refused while somebody holds the lock, waits for it or takes part in it. A root that
has just begun must first know who holds, so rm may take two TTLs longer. At a broker with
users it takes the role gateway or admin.

Exit codes: 1 nothing is known of the lock, 75 it is in use, 124 a server did not answer,
and those of "pubsub-node lock --help".`,
		Example:           `  pubsub-node lock rm crane`,
		Args:              declaredArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			p, err := s.joinAs(ctx, "admin or gateway", pubsub.Unannounced())
			if err != nil {
				return err
			}
			defer leave(p)
			views, err := lockViews(ctx, p, s)
			if err != nil {
				return err
			}
			v := viewOf(views, args[0])
			if v == nil {
				return nothingKnown(ctx, s, p, args[0])
			}
			return endedBy(ctx, removeLock(ctx, s, p, v))
		},
	}
}

// nothingKnown says that no root has told of a lock, or that there is nobody who could.
func nothingKnown(ctx context.Context, s *session, p *pubsub.Participant, name string) error {
	if all, err := servers(ctx, s, p); err == nil && len(all) == 0 {
		return nobodyServes(s, p)
	}
	return fmt.Errorf("nothing is known of lock %q: create it with \"pubsub-node lock create %s\", or see the others with \"pubsub-node lock ls\"", name, shellWord(name))
}

func nobodyServes(s *session, p *pubsub.Participant) error {
	if in, flags := s.scope(); in != "" { // a broker serves the default one
		return &exitError{exitUnavailable, fmt.Errorf("nobody serves locks%s at %s: start \"pubsub-node serve%s\", or look where others serve", in, p.URL(), flags)}
	}
	return &exitError{exitUnavailable, fmt.Errorf("nobody serves locks at %s: start \"pubsub-node broker\" or \"pubsub-node serve\"", p.URL())}
}

// scope is the domain and the prefix where those are not the default ones: as words, and as
// flags.
func (s *session) scope() (in, flags string) {
	if s.domain != "default" {
		in, flags = fmt.Sprintf(" in domain %q", s.domain), " --domain "+shellWord(s.domain)
	}
	if s.prefix != "padme" {
		in, flags = in+fmt.Sprintf(" below prefix %q", s.prefix), flags+" --prefix "+shellWord(s.prefix)
	}
	return in, flags
}

// removeLock asks each server to let go of the lock of a view until all have.
func removeLock(ctx context.Context, s *session, p *pubsub.Participant, v *qosmutex.View) error {
	name := v.Topic
	servers, err := servers(ctx, s, p)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return nobodyServes(s, p)
	}
	o, stop, err := newOperator(ctx, s, p, name)
	if err != nil {
		return s.refused(ctx, err, "admin or gateway")
	}
	defer stop()
	begun, takes := time.Now(), time.NewTimer(removeTakes)
	defer takes.Stop()
	for left, part, heard := servers, "", false; len(left) > 0; {
		if err := askToRemove(p, name, left); err != nil {
			return err
		}
		again := time.After(removeAgain)
		for waiting := true; waiting && len(left) > 0; {
			select {
			case a := <-o.answers:
				switch {
				case a.Op != jsonlock.Remove || a.Client != a.Gateway:
					continue
				case a.Outcome == jsonlock.Released:
					left = slices.DeleteFunc(left, func(id string) bool { return id == a.Gateway })
				case a.Reason == jsonlock.Busy:
					return inUse(name, a.Detail)
				case a.Reason == jsonlock.NotReady: // who takes part may be a server that leaves
					if part == "" {
						ttl := time.Duration(min(v.TTL, jsonlock.MaxWait.Seconds()) * float64(time.Second))
						takes.Reset(removeTakes + removeSettles*ttl - time.Since(begun))
						s.tell("waiting to remove lock %q: %s", name, a.Detail)
					}
					part = a.Detail
				default:
					return fmt.Errorf("%s does not let go of lock %q: %s", a.Gateway, name, a.Detail)
				}
				heard = true
			case <-again:
				if waiting = false; !heard && s.named() {
					if err := o.deaf(ctx); err != nil {
						return err
					}
					heard = true // as far as the broker says, it will be
				}
			case <-takes.C:
				return notRemoved(name, part, left)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func inUse(name, by string) error {
	return &exitError{exitBusy, fmt.Errorf("lock %q is in use: %s", name, by)}
}

// notRemoved says why a lock is still there: some take part, or servers are left.
func notRemoved(name, part string, left []string) error {
	if part != "" {
		return inUse(name, part)
	}
	return &exitError{exitTimeout, fmt.Errorf("no answer within %v from %s: this user may lack the role admin or gateway", removeTakes, strings.Join(left, ", "))}
}

func askToRemove(p *pubsub.Participant, name string, servers []string) error {
	r := jsonlock.New(jsonlock.Remove)
	r.ID = p.ID()[:min(len(p.ID()), jsonlock.MaxName)]
	payload, err := r.Encode()
	for _, id := range servers {
		if err == nil {
			err = p.PublishRaw(pubsub.Main, []string{"lock", name, "client", id, "request"}, payload, false)
		}
	}
	return err
}

// servers are the participants that say that they serve locks, in order.
func servers(ctx context.Context, s *session, p *pubsub.Participant) ([]string, error) {
	known := map[string]pubsub.Presence{}
	err := snapshot(ctx, s.reading(p), p.Peers, func(pr pubsub.Presence) { known[pr.ID] = pr })
	return serving(known), err
}

// serving are those of known that serve locks, in order.
func serving(known map[string]pubsub.Presence) (ids []string) {
	for id, pr := range known {
		if pr.Alive && pr.UserData[jsonlock.ServesKey] == jsonlock.ServesLocks {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
