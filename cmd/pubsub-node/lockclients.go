package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/broker"
	"padme/cmd/internal/flags"
	"padme/pubsub"
	"padme/qosmutex/gateway"
	"padme/qosmutex/jsonlock"
)

// clientAnswer is what a gateway tells a client of one of its requests.
type clientAnswer struct {
	Lock   string `json:"lock"`
	Client string `json:"client"`
	jsonlock.Answer
}

func (a *clientAnswer) request() string { return a.Client + " " + a.Session + " " + a.ID }

func (a *clientAnswer) final() bool {
	return a.Outcome != jsonlock.Waiting && a.Outcome != jsonlock.Granted
}

// operator speaks for clients of gateways, and hears what they are answered.
type operator struct {
	s       *session
	p       *pubsub.Participant
	lock    string
	answers chan clientAnswer
}

// newOperator listens until stop. A broker with users lets gateways and
// administrators.
func newOperator(ctx context.Context, s *session, p *pubsub.Participant, lock string) (o *operator, stop func(), err error) {
	o = &operator{s, p, lock, make(chan clientAnswer, maxUnseen)}
	stop, err = p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", lock, "client", "+", "answer"}, func(m pubsub.RawMessage) {
		a := clientAnswer{Lock: lock, Client: m.Levels[3]}
		if m.Retained || json.Unmarshal(m.Payload, &a.Answer) != nil {
			return
		}
		select {
		case o.answers <- a:
		default: // it is repeated
		}
	})
	return o, stop, err
}

// listen collects the newest answer of each request for so long.
func (o *operator) listen(ctx context.Context, during time.Duration) ([]clientAnswer, error) {
	latest := map[string]clientAnswer{}
	over := time.After(during)
	for {
		select {
		case a := <-o.answers:
			latest[a.request()] = a
		case <-over:
			if len(latest) == 0 && o.s.named() {
				if err := o.deaf(ctx); err != nil {
					return nil, err
				}
			}
			var all []clientAnswer
			for _, a := range latest {
				if !a.final() {
					all = append(all, a)
				}
			}
			slices.SortFunc(all, func(a, b clientAnswer) int {
				return cmp.Or(strings.Compare(a.Resource, b.Resource), cmp.Compare(a.Position, b.Position), strings.Compare(a.request(), b.request()))
			})
			return all, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-o.p.Done():
			return nil, o.p.Err()
		}
	}
}

// deaf says if this user hears nothing because of its role, as far as the broker tells it.
func (o *operator) deaf(ctx context.Context) error {
	switch role := o.s.role(ctx); broker.Role(role) {
	case "", broker.Admin, broker.Gateway:
		return nil
	default:
		return fmt.Errorf("%w: not authorized: user %s has role %s, %s needs admin or gateway", pubsub.ErrRefused, o.p.ID(), role, o.s.verb)
	}
}

// sayAgain is how long an answer may take before the request is sent again.
const sayAgain = time.Second

// say sends op for a client's request until done accepts an answer about it. It names
// the client's own clock as last heard, so that the client takes no answer for longer
// than it is good.
func (o *operator) say(ctx context.Context, of clientAnswer, op jsonlock.Op, more map[string]any, done func(*clientAnswer) bool) (clientAnswer, error) {
	body := map[string]any{"op": op, "id": of.ID, "session": of.Session}
	if of.Sent != "" {
		body["sent"] = of.Sent
	}
	for k, v := range more {
		body[k] = v
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return of, err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if err := o.p.PublishRaw(pubsub.Main, []string{"lock", o.lock, "client", of.Client, "request"}, payload, false); err != nil && !errors.Is(err, pubsub.ErrOffline) {
				return of, err
			}
			timer.Reset(sayAgain)
		case a := <-o.answers:
			if a.request() == of.request() && done(&a) {
				return a, nil
			}
		case <-ctx.Done():
			return of, context.Cause(ctx)
		case <-o.p.Done():
			return of, o.p.Err()
		}
	}
}

// clientFlags are the flags of `pubsub-node lock clients|bump|evict`.
type clientFlags struct {
	listen   time.Duration
	wait     time.Duration
	request  string
	priority int64
	json     bool
}

func (f *clientFlags) add(cmd *cobra.Command, one bool) {
	fs := cmd.Flags()
	flags.DurationVar(fs, &f.listen, "listen", "", 4*time.Second, "how long to listen for clients: they renew, mostly every second")
	fs.BoolVar(&f.json, "json", false, "one JSON object per line, as in the gateway's answers")
	if one {
		fs.StringVar(&f.request, "request", "", "`id` of the request, if the client has several")
		flags.DurationVar(fs, &f.wait, "wait", "w", 20*time.Second, "how long the gateway may take")
	}
}

const clientsOnly = `It hears what gateways answer to clients that have none of our libraries (docs/clients.md).
At a broker with users, only those with the role admin or gateway hear anything.`

func newLockClients(s *session) *cobra.Command {
	f := &clientFlags{}
	cmd := &cobra.Command{
		Use:   "clients NAME",
		Short: "Show the requests of a gateway's clients",
		Long: `clients prints the requests for the lock NAME that clients make in JSON, through a
gateway, and that wait or hold.

` + clientsOnly + `

Exit codes: those of "pubsub-node lock --help".`,
		Example:           "  pubsub-node lock clients crane\n  pubsub-node lock clients crane --json | jq -r .client",
		Args:              argCount(1, 1, "NAME"),
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), s, args[0], func(ctx context.Context, o *operator) error {
				all, err := o.listen(ctx, f.listen)
				if err != nil {
					return err
				}
				return f.write(cmd.OutOrStdout(), all)
			})
		},
	}
	f.add(cmd, false)
	return cmd
}

func (f *clientFlags) run(ctx context.Context, s *session, name string, do func(context.Context, *operator) error) error {
	if f.listen <= 0 {
		return usageError("--listen %v is not positive", f.listen)
	}
	if err := gateway.CheckTopic(name); err != nil {
		return usageError("%w", err)
	}
	return s.whileJoined(ctx, s.joinToRead, func(ctx context.Context, p *pubsub.Participant) error {
		o, stop, err := newOperator(ctx, s, p, name)
		if err != nil {
			return endedBy(ctx, err)
		}
		defer stop()
		return endedBy(ctx, do(ctx, o))
	})
}

func (f *clientFlags) write(w io.Writer, all []clientAnswer) error {
	if f.json {
		return writeJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CLIENT\tREQUEST\tRESOURCE\tOUTCOME\tPOSITION\tPRIORITY\tFENCE\tVIA")
	for _, a := range all {
		position, fence := "-", "-"
		if a.Position > 0 {
			position = fmt.Sprint(a.Position)
		}
		if a.Fence != "" {
			fence = printable(a.Fence)
		}
		var priority int64
		if a.Priority != nil {
			priority = *a.Priority
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(a.Client), printable(a.ID), printable(a.Resource), printable(string(a.Outcome)), position, priority, fence, printable(a.Gateway))
	}
	return t.Flush()
}

// one finds the request of a client that --request names, or its only one.
func (f *clientFlags) one(ctx context.Context, o *operator, client string) (clientAnswer, error) {
	all, err := o.listen(ctx, f.listen)
	if err != nil {
		return clientAnswer{}, err
	}
	all = slices.DeleteFunc(all, func(a clientAnswer) bool {
		return a.Client != client || f.request != "" && a.ID != f.request
	})
	switch len(all) {
	case 0:
		return clientAnswer{}, fmt.Errorf("no such request of client %q was heard of within %v: see the others with \"pubsub-node lock clients %s\", or give a longer --listen", client, f.listen, o.lock)
	case 1:
		return all[0], nil
	}
	return clientAnswer{}, usageError("client %q has %d requests: choose one with --request", client, len(all))
}

func newLockBump(s *session) *cobra.Command {
	f := &clientFlags{}
	cmd := &cobra.Command{
		Use:   "bump NAME CLIENT -p PRIORITY",
		Short: "Make a waiting request of a gateway's client more important",
		Long: `bump raises the priority of a request for the lock NAME that CLIENT has made in JSON,
through a gateway, and that waits. It cannot be made less important, and requests that
were made otherwise cannot be changed from outside.

` + clientsOnly + `

Exit codes: 1 no such request, 77 the gateway refuses it, 124 no gateway answers, and
those of "pubsub-node lock --help".`,
		Example: "  pubsub-node lock bump crane esp32 -p 1",
		Args:    argCount(2, 2, "NAME and CLIENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("priority") {
				return usageError("missing -p PRIORITY")
			}
			return f.act(cmd, s, args, jsonlock.Raise, map[string]any{"priority": f.priority}, func(a *clientAnswer) bool { return a.Op == jsonlock.Raise || a.final() })
		},
	}
	f.add(cmd, true)
	cmd.Flags().Int64VarP(&f.priority, "priority", "p", 0, "`priority`: smaller is more important")
	return cmd
}

func newLockEvict(s *session) *cobra.Command {
	f := &clientFlags{}
	cmd := &cobra.Command{
		Use:   "evict NAME CLIENT",
		Short: "End a request or hold of a gateway's client",
		Long: `evict ends a request for the lock NAME that CLIENT has made in JSON, through a gateway,
as if its last will had come: one that waits at once, one that holds as soon as the
client cannot believe in it any more, so that nobody else is inside before. Nothing
keeps the client from asking again.

` + clientsOnly + `

Exit codes: 1 no such request, 124 it did not end in time, and those of
"pubsub-node lock --help".`,
		Example: "  pubsub-node lock evict crane esp32",
		Args:    argCount(2, 2, "NAME and CLIENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, s, args, jsonlock.Gone, nil, (*clientAnswer).final)
		},
	}
	f.add(cmd, true)
	return cmd
}

// act says op for one request and shows how that stands afterwards.
func (f *clientFlags) act(cmd *cobra.Command, s *session, args []string, op jsonlock.Op, more map[string]any, done func(*clientAnswer) bool) error {
	return f.run(cmd.Context(), s, args[0], func(ctx context.Context, o *operator) error {
		of, err := f.one(ctx, o, args[1])
		if err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, f.wait)
		defer cancel()
		a, err := o.say(waiting, of, op, more, done)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return &exitError{exitTimeout, fmt.Errorf("no gateway has done it within %v: is \"pubsub-node serve\" running?", f.wait)}
		case err != nil:
			return err
		case a.Outcome == jsonlock.Denied:
			return &exitError{exitRefused, fmt.Errorf("the gateway refuses it: %s: %s", a.Reason, a.Detail)}
		case op == jsonlock.Raise && a.final():
			return fmt.Errorf("the request is over: %s", a.Outcome)
		}
		return f.write(cmd.OutOrStdout(), []clientAnswer{a})
	})
}
