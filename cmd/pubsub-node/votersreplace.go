package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

func newVotersReplace(s *session) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "replace OLD NEW",
		Short: "Have a voter take the place of one that is gone for good",
		Long: `replace has the voter NEW take the place of the voter OLD. A majority of the voters
must run. Start NEW first, with an empty directory and the list of voters that there
shall be. A voter that lost its file takes its own place: NEW is then the same as OLD.

It returns once NEW votes. Until then take no other voter away. The others go on, and
may be restarted with the list that they had or with the new one. OLD, if it comes
back, says that it was replaced.

Exit codes: 0 done, or it was done before, 1 it cannot be done, 69 no majority of the
voters answers, 124 NEW does not vote yet, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node serve --id v4 --voters v1,v2,v4 --data /var/lib/padme &   # on the new machine
  pubsub-node voters replace v3 v4
  pubsub-node voters replace v2 v2                                      # it lost its file`,
		Args: argCount(2, 2, "OLD and NEW, two ids of voters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 {
				return usageError("--wait %v is not positive", wait)
			}
			return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
				return s.replaceVoter(ctx, cmd.OutOrStdout(), p, args[0], args[1], wait)
			})
		},
	}
	flags.DurationVar(cmd.Flags(), &wait, "wait", "w", 30*time.Second, "how long to wait until NEW votes")
	return cmd
}

func (s *session) replaceVoter(ctx context.Context, w io.Writer, p *pubsub.Participant, old, by string, patience time.Duration) error {
	seen, err := s.survey(ctx, p)
	if err != nil {
		return err
	}
	at, done, crowded, err := seen.mayReplace(old, by)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := inboxes.NewOperator(p)
	if err != nil {
		return err
	}
	defer o.Close()
	if !done {
		err := o.Replace(ctx, at, old, by)
		for end := time.Now().Add(crowdedFor); crowded && err != nil && !errors.Is(err, register.ErrUnavailable) && time.Now().Before(end); {
			wait.Sleep(ctx, crowdedFor/20) // it has a place at that voter when it asks again
			err = o.Replace(ctx, at, old, by)
		}
		if errors.Is(err, register.ErrUnavailable) {
			return &exitError{exitUnavailable, fmt.Errorf("%w: no majority of the voters answers: see \"pubsub-node voters show\"", err)}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	for {
		r, _, err := o.Inquire(ctx, by)
		switch {
		case err != nil:
			return &exitError{exitTimeout, fmt.Errorf("it is decided that %s has the place of %s, but %s does not vote yet: see \"pubsub-node voters show\", and take no other voter away before", by, old, by)}
		case r.Phase == "voting":
			_, err := fmt.Fprintln(w, printable(votes(&r)))
			return err
		}
		wait.Sleep(ctx, 100*time.Millisecond)
	}
}

func votes(r *quorum.Report) string {
	return fmt.Sprintf("%s votes: configuration %d, voters %s", r.ID, r.Config, strings.Join(idsOf(r.Voters), ","))
}

func idsOf(members []quorum.Member) []string {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids
}

// crowdedFor is how long a voter may take to ask again for a place among the many that ask.
const crowdedFor = 5 * time.Second

// mayReplace finds a voter to ask; done: it has been done before; crowded: so many others ask
// to be voters that the voter may have forgotten by, until an operator names it.
func (v *survey) mayReplace(old, by string) (at string, done, crowded bool, err error) {
	if len(v.reports) == 0 {
		return "", false, false, errNoVoters
	}
	newest := v.newest()
	if newest == nil {
		return "", false, false, errors.New("the voters are not set up yet, so none can be replaced: see \"pubsub-node voters show\", and start them all with the same list")
	}
	ids := idsOf(newest.Voters)
	if i := slices.Index(ids, by); i >= 0 {
		r, answers := v.reports[by]
		there := answers && r.Instance == newest.Voters[i].Instance
		switch {
		case by != old && slices.Contains(ids, old):
			return "", false, false, usageError("%s is a voter already: the voters are %s", by, strings.Join(ids, ","))
		case by != old || there:
			return "", true, false, nil
		case !answers:
			return "", false, false, fmt.Errorf("%s does not answer: start it with an empty directory first, if its file is lost; otherwise start it with its file, and nothing has to be replaced", by)
		}
	} else if !slices.Contains(ids, old) {
		return "", false, false, usageError("%s is no voter: the voters are %s", old, strings.Join(ids, ","))
	}
	if !v.majority() {
		return "", false, false, &exitError{exitUnavailable, fmt.Errorf("no majority of the voters %s votes, so none can be replaced: see \"pubsub-node voters show\"", strings.Join(ids, ","))}
	}
	for _, id := range ids {
		r, ok := v.reports[id]
		if !ok || r.Phase != "voting" {
			continue
		}
		if slices.ContainsFunc(r.Asking, func(m quorum.Member) bool { return m.ID == by }) {
			return id, false, false, nil
		}
		if len(r.Asking) >= caspaxos.MaxEnrolled {
			at = id
		}
	}
	if at != "" {
		return at, false, true, nil
	}
	ids[max(0, slices.Index(ids, old))] = by
	slices.Sort(ids)
	return "", false, false, fmt.Errorf("%s has not asked to be a voter: start it first, with \"pubsub-node serve --id %s --voters %s --data DIR\" and an empty DIR", by, by, strings.Join(ids, ","))
}
