package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"padme/pubsub"
	"padme/qosmutex"
)

// nodeInfo is the line of `node info --json`.
type nodeInfo struct {
	nodeLine
	Endpoints []endpointLine `json:"endpoints"`
	Locks     []lockRole     `json:"locks"`
}

// lockRole is what a participant has to do with a lock, as its root last said; that it
// can become the root it says itself.
type lockRole struct {
	Lock     string `json:"lock"`
	Resource string `json:"resource,omitempty"`
	Role     string `json:"role"`             // root, candidate, holder or waiter
	Client   string `json:"client,omitempty"` // for which it holds or waits; none: for itself
	Priority int64  `json:"priority,omitempty"`
}

func newNodeInfo(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info NODE",
		Short: "Show a participant, what it writes and reads, and its locks",
		Long: `info prints whether the participant NODE is alive and since when, its writers and
readers, and its locks: those of which it is or can become the root, which it
holds, and for which it is one of the first 16 that wait.

Exit codes: 0 alive, 1 dead or never heard of, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node node info robot-7
  pubsub-node node info robot-7 --json | jq '.locks[] | select(.role == "holder")'`,
		Args: argCount(1, 1, "NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			info, err := s.nodeInfo(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), []nodeInfo{info})
			} else {
				err = info.write(cmd.OutOrStdout())
			}
			if err == nil && !info.Alive {
				return &exitError{code: exitFailure}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func (s *session) nodeInfo(ctx context.Context, id string) (nodeInfo, error) {
	info := nodeInfo{Endpoints: []endpointLine{}, Locks: []lockRole{}}
	p, err := s.joinToRead(ctx)
	if err != nil {
		return info, err
	}
	defer leave(p)
	var known map[string]pubsub.Presence
	var endpoints []pubsub.Announcement
	var views []qosmutex.View
	var members []qosmutex.Member
	var states []qosmutex.State
	all, during := errgroup.WithContext(ctx)
	all.Go(func() (err error) { known, endpoints, err = lookBy(during, s, p, ""); return err })
	all.Go(func() (err error) { views, err = lockViews(during, p, s); return err })
	all.Go(func() (err error) { members, err = lockMembers(during, p, s, id); return err })
	all.Go(func() (err error) { states, err = lockStates(during, s.reading(p), p, ""); return err })
	if err := all.Wait(); err != nil {
		return info, err
	}
	pr, ok := known[id]
	if !ok {
		return info, fmt.Errorf("there is no participant %q: see the others with \"pubsub-node node ls --all\"", id)
	}
	info.nodeLine = lineOf(pr)
	mine := slices.DeleteFunc(endpoints, func(e pubsub.Announcement) bool { return e.GUID.Participant != id })
	info.Endpoints = append(info.Endpoints, endpointLines(mine)...)
	info.Locks = append(info.Locks, rolesOf(&pr, views, members, states)...)
	return info, nil
}

// lockViews reads the retained views of all locks, sorted.
func lockViews(ctx context.Context, p *pubsub.Participant, s *session) ([]qosmutex.View, error) {
	latest := map[string]qosmutex.View{}
	watch := func(ctx context.Context) iter.Seq2[qosmutex.View, error] { return watchViews(ctx, p, "") }
	if err := snapshot(ctx, s.reading(p), watch, func(v qosmutex.View) { latest[v.Topic] = v }); err != nil {
		return nil, err
	}
	views := slices.Collect(maps.Values(latest))
	slices.SortFunc(views, func(a, b qosmutex.View) int { return strings.Compare(a.Topic, b.Topic) })
	return views, nil
}

// watchViews yields the view of a lock topic, or of all with an empty name, and each that
// follows.
func watchViews(ctx context.Context, p *pubsub.Participant, name string) iter.Seq2[qosmutex.View, error] {
	return watchJSON(ctx, p, func(levels []string, v *qosmutex.View) bool { return v.Topic == levels[1] }, []string{"lock", cmp.Or(name, "+"), "view"})
}

// lockMembers reads what a participant, or with an empty id each, says of its place in each
// lock.
func lockMembers(ctx context.Context, p *pubsub.Participant, s *session, id string) ([]qosmutex.Member, error) {
	type place struct{ topic, participant string }
	latest := map[place]qosmutex.Member{}
	watch := func(ctx context.Context) iter.Seq2[qosmutex.Member, error] {
		return watchJSON(ctx, p, func(levels []string, m *qosmutex.Member) bool {
			return m.Topic == levels[1] && m.Participant == levels[3]
		}, []string{"lock", "+", "member", cmp.Or(id, "+")})
	}
	err := snapshot(ctx, s.reading(p), watch, func(m qosmutex.Member) { latest[place{m.Topic, m.Participant}] = m })
	return slices.Collect(maps.Values(latest)), err
}

// watchJSON yields what is published on topics below R, and drops what does not belong
// there.
func watchJSON[T any](ctx context.Context, p *pubsub.Participant, belongs func(levels []string, v *T) bool, topics ...[]string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		incoming := make(chan T, maxUnseen)
		for _, levels := range topics {
			stop, err := p.SubscribeRaw(ctx, pubsub.Main, levels, func(m pubsub.RawMessage) {
				var v T
				if json.Unmarshal(m.Payload, &v) != nil || !belongs(m.Levels, &v) {
					return
				}
				select {
				case incoming <- v:
				default:
				}
			})
			if err != nil {
				yield(none, err)
				return
			}
			defer stop()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.Done():
				yield(none, p.Err())
				return
			case v := <-incoming:
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

func rolesOf(pr *pubsub.Presence, views []qosmutex.View, members []qosmutex.Member, states []qosmutex.State) (roles []lockRole) {
	id := pr.ID
	for _, v := range views {
		candidate := func(m qosmutex.Member) bool { return m.Topic == v.Topic && m.Candidate && isThere(&m, pr) }
		switch {
		case v.Root == id:
			roles = append(roles, lockRole{Lock: v.Topic, Role: "root"})
		case slices.ContainsFunc(members, candidate):
			roles = append(roles, lockRole{Lock: v.Topic, Role: "candidate"})
		}
	}
	for _, st := range states {
		if client, ok := asksFor(id, st.Holder, st.Via); ok && st.Holder != "" {
			roles = append(roles, lockRole{st.Topic, st.Resource, "holder", client, st.Priority})
		}
		for _, w := range st.Queue {
			if client, ok := asksFor(id, w.Participant, w.Via); ok {
				roles = append(roles, lockRole{st.Topic, st.Resource, "waiter", client, w.Priority})
			}
		}
	}
	return roles
}

// isThere reports whether a participant still is what m says.
func isThere(m *qosmutex.Member, pr *pubsub.Presence) bool {
	return pr.Alive && m.Incarnation == pr.Incarnation
}

// asksFor reports whether participant id is who asks, and for which client; "": for itself.
func asksFor(id, name, via string) (client string, ok bool) {
	if via == "" {
		return "", name == id
	}
	return name, via == id
}

func (n *nodeInfo) write(w io.Writer) error {
	fmt.Fprintf(w, "%s %s since %s %s\n", printable(n.ID), n.state(), since(n.Since), n.data())
	if len(n.Endpoints) > 0 {
		fmt.Fprintln(w)
		if err := writeEndpoints(w, n.Endpoints); err != nil {
			return err
		}
	}
	if len(n.Locks) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tRESOURCE\tROLE\tPRIORITY")
	for _, l := range n.Locks {
		resource, role, priority := l.Resource, l.Role, "-"
		if l.Client != "" {
			role += " for " + printable(l.Client)
		}
		if resource == "" {
			resource = "-"
		} else {
			priority = fmt.Sprint(l.Priority)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printable(l.Lock), printable(resource), role, priority)
	}
	return t.Flush()
}
