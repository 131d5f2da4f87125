package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

func newVoters(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "voters",
		Short: "See, replace and reset the voters that decide who roots each lock",
		Long: `voters is for who runs the voters of "pubsub-node serve --voters": one, three or
five processes that keep who is the root of each lock. As long as a majority of them
runs, locks go on; without it nothing can be locked.

Nothing has to be set up: start each voter with the same --voters and an empty
directory, and they begin as soon as all of them run.

A "pubsub-node broker" needs no voters: it keeps a file of its own.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newVotersShow(s), newVotersReplace(s), newVotersReset())
	return cmd
}

func newVotersShow(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show who votes, who is missing and why",
		Long: `show asks every participant that is alive whether it is a voter, and prints what
they say: who is enrolled, with which file, and in which state:

  votes      it answers and decides with the others; if its file has vanished, the last
             column says what to do before it ends
  quiet      it may have forgotten something, as after a restart of its machine, and
             answers nothing yet
  waits      it was started, but not all voters of its list were
  fetches    it has taken a voter's place and copies what the others know
  refused    it cannot vote; the last column says why, and what to do
  replaced   another one has its place: stop it
  missing    it is enrolled, and does not answer

Exit codes: 0 all voters vote, 1 one does not or has no file, or there are none, and
those of "pubsub-node lock --help".`,
		Example: `  pubsub-node voters show
  pubsub-node voters show --json | jq -r 'select(.state == "missing").voter'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
				seen, err := s.survey(ctx, p)
				if err != nil {
					return err
				}
				lines := seen.lines()
				if asJSON {
					err = writeJSON(cmd.OutOrStdout(), lines)
				} else {
					err = seen.write(cmd.OutOrStdout(), lines)
				}
				if err == nil && len(lines) == 0 {
					return errNoVoters
				}
				if err == nil && slices.ContainsFunc(lines, func(l voterLine) bool { return !l.fine() }) {
					return &exitError{code: exitFailure}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// errNoVoters: nobody answered.
var errNoVoters = errors.New(`no voters answer here: start them with "pubsub-node serve --voters", or give another --broker or --domain; ` +
	`"pubsub-node broker" needs none, and a user whose role is observer cannot ask`)

// survey is what voters have said.
type survey struct {
	reports map[string]quorum.Report
	trips   map[string]time.Duration
}

// survey asks everybody who is alive, as voters are not announced.
func (s *session) survey(ctx context.Context, p *pubsub.Participant) (*survey, error) {
	alive := map[string]bool{}
	if err := snapshot(ctx, s.reading(p), p.Peers, func(pr pubsub.Presence) { alive[pr.ID] = pr.Alive }); err != nil {
		return nil, err
	}
	delete(alive, p.ID())
	o, err := inboxes.NewOperator(p)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	asking, cancel := context.WithTimeout(ctx, 1500*time.Millisecond+4*s.joined)
	defer cancel()
	seen := &survey{reports: map[string]quorum.Report{}, trips: map[string]time.Duration{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for id, is := range alive {
		if !is {
			continue
		}
		all.Go(func() {
			r, trip, err := o.Inquire(asking, id)
			if err != nil {
				return // it is no voter, or does not answer
			}
			mu.Lock()
			defer mu.Unlock()
			seen.reports[id], seen.trips[id] = r, trip
		})
	}
	all.Wait()
	return seen, context.Cause(ctx)
}

// newest is the newest configuration that somebody knows and a majority of which votes, or
// else the newest of all; nil: there is none. So a voter of a domain that was reset does
// not hide the one that has taken its place.
func (v *survey) newest() *quorum.Report {
	var newest *quorum.Report
	decides := false
	for _, id := range v.ids() {
		r := v.reports[id]
		if r.Config == 0 {
			continue
		}
		if d := v.decides(&r); newest == nil || d && !decides || d == decides && r.Config > newest.Config {
			newest, decides = &r, d
		}
	}
	return newest
}

// ids are those that answered, in order.
func (v *survey) ids() []string {
	var ids []string
	for id := range v.reports {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// voterLine is one line of `voters show --json`.
type voterLine struct {
	Voter         string  `json:"voter"`
	State         string  `json:"state"`
	Enrolled      bool    `json:"enrolled"`
	RoundTrip     float64 `json:"roundTrip,omitempty"` // seconds
	Sync          float64 `json:"sync,omitempty"`      // seconds
	Instance      string  `json:"instance,omitempty"`  // of the file
	Configuration uint32  `json:"configuration,omitempty"`
	Domain        string  `json:"domain,omitempty"`
	Problem       string  `json:"problem,omitempty"`

	Missing []string `json:"missing,omitempty"` // others that do not answer this one

	vanished bool // its file has, so it loses its vote when it ends
}

const (
	stateVotes    = "votes"
	stateReplaced = "replaced"
	stateMissing  = "missing"
)

func (l *voterLine) fine() bool {
	return l.State == stateVotes && !l.vanished || l.State == stateReplaced
}

// stateOf is a voter's state in a word.
func stateOf(r *quorum.Report) string {
	switch r.Phase {
	case "voting":
		if r.Quiet > 0 {
			return "quiet"
		}
		return stateVotes
	case "enrolling":
		return "waits"
	case "installing":
		return "fetches"
	case "retired":
		return stateReplaced
	}
	return r.Phase
}

// lines are all voters that answered, and all that are known to be enrolled.
func (v *survey) lines() []voterLine {
	lines := map[string]voterLine{}
	newest := v.newest()
	expected := func(id, instance string) {
		if _, ok := v.reports[id]; !ok && id != "" {
			lines[id] = voterLine{Voter: id, State: stateMissing, Enrolled: instance != "", Instance: instance, Problem: "no answer: is it running, and can it reach the broker?"}
		}
	}
	for id, r := range v.reports {
		l := voterLine{
			Voter: id, State: stateOf(&r), RoundTrip: v.trips[id].Seconds(), Sync: r.Sync, Instance: hexOf(r.Instance),
			Configuration: r.Config, Domain: r.Domain, Problem: r.Problem, Missing: r.Missing,
		}
		for _, other := range r.Missing {
			if _, answers := v.reports[other]; answers && l.State == stateVotes {
				l.Problem = fmt.Sprintf("it hears nothing of %s, which answers here: has that just started, or may they not write to each other?", other)
			}
		}
		if r.Vanished != "" {
			l.Problem, l.vanished = r.Vanished, true
		}
		if r.Phase == "enrolling" {
			l.Problem = "waits for " + strings.Join(r.Missing, ",") + ", of its list " + strings.Join(r.Listed, ",")
			for _, other := range r.Listed {
				if newest == nil {
					expected(other, "")
				}
			}
		}
		if newest != nil {
			l.Enrolled = slices.Contains(newest.Voters, quorum.Member{ID: id, Instance: r.Instance})
			if r.Domain != "" && r.Domain != newest.Domain && l.State != stateReplaced {
				l.Problem = fmt.Sprintf("it votes in another domain than %s: its file belongs to other voters", newest.ID)
			}
		}
		lines[id] = l
	}
	if newest != nil {
		for _, m := range newest.Voters {
			expected(m.ID, hexOf(m.Instance))
		}
	}
	var sorted []voterLine
	for _, l := range lines {
		sorted = append(sorted, l)
	}
	slices.SortFunc(sorted, func(a, b voterLine) int { return cmp.Compare(a.Voter, b.Voter) })
	return sorted
}

func hexOf(instance uint64) string { return fmt.Sprintf("%016x", instance) }

// voting counts the voters of a configuration that vote.
func (v *survey) voting(c *quorum.Report) int {
	n := 0
	for _, m := range c.Voters {
		if r, ok := v.reports[m.ID]; ok && r.Instance == m.Instance && r.Phase == "voting" && r.Quiet == 0 {
			n++
		}
	}
	return n
}

// decides reports whether a majority of a configuration votes.
func (v *survey) decides(c *quorum.Report) bool { return v.voting(c) > len(c.Voters)/2 }

// majority reports whether those that vote can decide.
func (v *survey) majority() bool {
	newest := v.newest()
	return newest != nil && v.decides(newest)
}

// verdict says in a sentence how the voters are.
func (v *survey) verdict() string {
	newest := v.newest()
	if newest == nil {
		return "not set up yet: nothing can be locked until every voter of the list runs"
	}
	ids := idsOf(newest.Voters)
	s := fmt.Sprintf("configuration %d of domain %.8s: %s; %d of %d vote", newest.Config, newest.Domain, strings.Join(ids, ","), v.voting(newest), len(ids))
	if !v.majority() {
		return s + ", which is no majority: nothing can be locked; see \"pubsub-node voters reset --help\" if the others are gone for good"
	}
	return s
}

func (v *survey) write(w io.Writer, lines []voterLine) error {
	if len(lines) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "VOTER\tSTATE\tROUND TRIP\tSYNC\tFILE\tPROBLEM")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(l.Voter), l.State, seconds(l.RoundTrip), seconds(l.Sync), l.Instance, printable(l.Problem))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, printable(v.verdict()))
	return err
}
