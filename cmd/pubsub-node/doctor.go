package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
)

// finding is one line of `doctor --json`.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, note or bad
	Detail string `json:"detail"`
}

func newDoctor(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a broker and its domain",
		Long: `doctor looks at the broker and at the domain, changes nothing in either but announces
itself and reads, and says what it finds:

  broker    it can be reached, and how long connecting took
  retained  it delivers what it keeps to a subscription with wildcards, which locks
            need and RabbitMQ does not do
  stale     writers and readers that a dead participant left behind
  dead      participants that ended without saying so
  qos       writers and readers that do not match
  clock     participants that were born in the future, so whose clock is ahead of ours
  servers   who serves locks, as "pubsub-node broker" and "pubsub-node serve" do
  root      who is the root of which lock, and whether it is alive
  voters    who of "serve --voters" does not vote; see "voters show"
  lease     whether two round trips to a majority of the voters and a write to disk fit
            into half of each lock's lease, which is a quarter of its time-to-live

A user that may only read gets what reading shows; voters are not asked then.

Exit codes: 0 nothing is bad, 1 something is, 69 the broker cannot be reached, and those
of "pubsub-node lock --help".`,
		Example: `  pubsub-node doctor
  pubsub-node doctor --json | jq 'select(.result == "bad")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			found, err := s.examine(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), found)
			} else {
				err = writeFindings(cmd.OutOrStdout(), found)
			}
			if err == nil && slices.ContainsFunc(found, func(f finding) bool { return f.Result == resultBad }) {
				return &exitError{code: exitFailure}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// Results of a check.
const (
	resultOK   = "ok"
	resultNote = "note" // worth knowing
	resultBad  = "bad"
)

func (s *session) examine(ctx context.Context) ([]finding, error) {
	p, err := s.join(ctx)
	barred := "" // why it can only read
	if mayRead(err) {
		barred = err.Error()
		p, err = s.joinToRead(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer leave(p)
	found := []finding{{"broker", resultOK, fmt.Sprintf("%s answered in %v", p.URL(), s.joined.Round(time.Millisecond))}}
	reading, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	endpoints, err := p.Endpoints(reading)
	if err != nil {
		return nil, endedBy(ctx, err)
	}
	known := map[string]pubsub.Presence{}
	if err := snapshot(ctx, s.reading(p), p.Peers, func(pr pubsub.Presence) { known[pr.ID] = pr }); err != nil {
		return nil, err
	}
	found = append(found, examineRetained(p, known, barred))
	views, err := lockViews(ctx, p, s)
	if err != nil {
		return nil, err
	}
	members, err := lockMembers(ctx, p, s, "")
	if err != nil {
		return nil, err
	}
	forgetLeavers(p, known)
	found = append(found, examineEndpoints(endpoints)...)
	found = append(found, examinePresences(known, time.Now())...)
	found = append(found, examineServers(known, nobodyServes(s, p)))
	found = append(found, examineRoots(views, members, known, s.anotherRoot())...)
	if barred != "" {
		return append(found, finding{"voters", resultNote, "not asked: " + barred}), nil
	}
	seen, err := s.survey(ctx, p)
	if err != nil {
		return nil, err
	}
	return append(found, examineVoters(seen, views)...), nil
}

// mayRead reports whether who was not allowed to take part may still be let in to read.
func mayRead(err error) bool {
	if r := new(pubsub.RefusedError); errors.As(err, &r) {
		return r.LetIn
	}
	return errors.Is(err, pubsub.ErrRefused) // mosquitto drops what a user may not write, without a word
}

// examineRetained looks for our own birth, which the broker keeps, and forgets it; who may
// not take part has none, and looks for anybody's.
func examineRetained(p *pubsub.Participant, known map[string]pubsub.Presence, barred string) finding {
	kept := len(known) > 0
	if barred == "" {
		_, kept = known[p.ID()]
		delete(known, p.ID())
	}
	switch {
	case kept:
		return finding{"retained", resultOK, "what the broker keeps is delivered to wildcards"}
	case barred != "":
		return finding{"retained", resultNote, "nobody is there whose presence would show that the broker delivers what it keeps"}
	}
	return finding{"retained", resultBad, "the broker does not deliver what it keeps to wildcards: states, views and presences stay unknown"}
}

// forgetLeavers drops participants that were heard to end, and are not known any more: they
// ended in good order.
func forgetLeavers(p *pubsub.Participant, known map[string]pubsub.Presence) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no more than what is known now
	now := map[string]bool{}
	for pr, err := range p.Peers(ctx) {
		if err == nil {
			now[pr.ID] = true
		}
	}
	maps.DeleteFunc(known, func(id string, pr pubsub.Presence) bool { return !pr.Alive && !now[id] })
}

func examineEndpoints(endpoints []pubsub.Announcement) []finding {
	var alive []pubsub.Announcement
	var stale []string
	for _, e := range endpoints {
		if e.Alive {
			alive = append(alive, e)
		} else {
			stale = append(stale, endpointName(e))
		}
	}
	found := []finding{result("stale", resultNote, "left behind by the dead, harmless, gone when they come back", stale)}
	var apart []string
	for _, m := range mismatches(alive) {
		if m.Reason != separate {
			apart = append(apart, fmt.Sprintf("%s: %s and %s by %s", m.Topic, m.Writer, m.Reader, m.Reason))
		}
	}
	return append(found, result("qos", resultBad, "no samples flow", apart))
}

// ahead is how far in the future a birth may be: messages take time, clocks are read
// before.
const ahead = time.Second

func examinePresences(known map[string]pubsub.Presence, now time.Time) []finding {
	var dead, clocks []string
	for id, pr := range known {
		if !pr.Alive && !pr.Closed {
			dead = append(dead, id)
		}
		if by := pr.Since.Sub(now); by > ahead {
			clocks = append(clocks, fmt.Sprintf("%s by %v at least", id, by.Round(time.Millisecond)))
		}
	}
	slices.Sort(dead)
	slices.Sort(clocks)
	return []finding{
		result("dead", resultNote, "ended without saying so", dead),
		result("clock", resultBad, "ahead of ours", clocks),
	}
}

// examineServers looks for those who serve locks. That there are none is no fault where nobody locks.
func examineServers(known map[string]pubsub.Presence, nobody error) finding {
	all := serving(known)
	if len(all) == 0 {
		return finding{"servers", resultNote, nobody.Error()}
	}
	return finding{"servers", resultOK, strings.Join(all, ", ")}
}

func examineRoots(views []qosmutex.View, members []qosmutex.Member, known map[string]pubsub.Presence, remedy string) []finding {
	open := map[string]bool{} // by somebody
	for _, m := range members {
		if pr := known[m.Participant]; isThere(&m, &pr) {
			open[m.Topic] = true
		}
	}
	var found []finding
	for _, v := range views {
		f := finding{"root", resultOK, fmt.Sprintf("%s: %s, members %d, ttl %v", v.Topic, v.Root, v.Members, seconds(math.Min(v.TTL, math.MaxInt32)))}
		switch root, crashed := known[v.Root]; {
		case root.Alive:
		case !open[v.Topic] && (!crashed || root.Closed):
			f = finding{"root", resultNote, fmt.Sprintf("%s: none, and none is needed: the last participant that had it open, %s, has closed it", v.Topic, v.Root)}
		default:
			f = finding{"root", resultBad, fmt.Sprintf("%s: %s, which is not alive: %s", v.Topic, v.Root, remedy)}
		}
		found = append(found, f)
	}
	return found
}

// result is ok if there are none.
func result(check, otherwise, what string, which []string) finding {
	if len(which) == 0 {
		return finding{check, resultOK, "none"}
	}
	return finding{check, otherwise, what + ": " + strings.Join(which, ", ")}
}

// shownAlike is how many lines of one check are shown that say that all is well.
const shownAlike = 3

// writeFindings writes all that is not well, and sums up what is: a domain may have
// hundreds of locks.
func writeFindings(w io.Writer, found []finding) error {
	well := map[string]int{}
	for _, f := range found {
		if f.Result == resultOK {
			well[f.Check]++
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range found {
		detail := printable(f.Detail)
		if n := well[f.Check]; f.Result == resultOK && n > shownAlike {
			detail, well[f.Check] = fmt.Sprintf("%d, the first is %s", n, detail), 0
		} else if f.Result == resultOK && n == 0 { // it was summed up
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Check, f.Result, detail)
	}
	return t.Flush()
}
