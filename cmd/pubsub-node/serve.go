package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

// serveFlags are the flags of `pubsub-node serve`.
type serveFlags struct {
	metrics   string
	timing    string
	readyFile string
	voters    []string
	dataDir   string
}

func newServe(s *session) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve [NAME]...",
		Short: "Let any MQTT client take locks",
		Long: `serve offers the locks NAME, or every lock that a client names, to MQTT clients
that do not have this library. They publish JSON on

  PREFIX/v1/DOMAIN/lock/{topic}/client/{client}/request

and are answered on .../answer; docs/clients.md has examples for the shell, Python
and JavaScript. Locks that have no root are created: those named at once, others
when a client first asks.

Several may run. For each lock one of them answers, and when it dies another takes
over; clients whose lock was held by the dead one lose it, and ask again.

At a broker that is not "pubsub-node broker", nobody keeps who is the root of a lock.
One that serves alone keeps it in memory. Three or five keep it together as voters:
give each the same --voters, a --id that is among them, and a --data directory of its
own. As long as a majority of them runs, locks go on; a voter that loses its file
does not vote any more.

At a broker with users, its user must be a gateway: see broker passwd --role.
INT or TERM ends it: clients are told that their locks are lost, and the locks are
kept until they cannot believe in them any more.`,
		Example: `  pubsub-node serve
  pubsub-node serve crane frequencies
  PADME_PASSWORD=... pubsub-node serve --user gateway-1 --metrics 127.0.0.1:9101
  pubsub-node serve crane --id v1 --voters v1,v2,v3 --data /var/lib/padme   # and v2, v3 elsewhere`,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := gateway.CheckTopic(name); err != nil {
					return usageError("%w", err)
				}
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, cmd.OutOrStdout(), args)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.metrics, "metrics", "", "`address` that serves Prometheus metrics at /metrics (default: none)")
	fs.StringVar(&f.timing, "timing", "lan", "of locks that it creates: how soon a silent holder counts as dead: local (1s), lan (3s) or wan (15s)")
	fs.StringVar(&f.readyFile, "ready-file", "", "`file` that gets the broker's URL once it is connected")
	fs.StringSliceVar(&f.voters, "voters", nil, "`ids` of the 1, 3 or 5 that keep who is the root of each lock, the same for all of them; --id is one of them")
	fs.StringVar(&f.dataDir, "data", "", "`directory` of this voter's file; needed with --voters")
	return cmd
}

func (f *serveFlags) run(ctx context.Context, s *session, stdout io.Writer, names []string) error {
	timing, err := parseTiming(f.timing)
	if err != nil {
		return err
	}
	log := s.logger(slog.LevelWarn)
	opts := []gateway.Option{gateway.WithTopics(names...), gateway.WithTiming(timing), gateway.WithLogger(log)}
	lockOpts := []qosmutex.Option{qosmutex.WithLogger(log)}
	if f.metrics != "" {
		registry := prometheus.NewRegistry()
		addr, stop, err := serveMetrics(ctx, f.metrics, registry)
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(stdout, "metrics  http://%s/metrics\n", addr)
		opts = append(opts, gateway.WithMetrics(registry))
		lockOpts = append(lockOpts, qosmutex.WithMetrics(registry))
	}
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	if len(f.voters) > 0 {
		voter, err := f.startVoter(p, timing, log)
		if err != nil {
			return err
		}
		defer voter.Close()
		opts = append(opts, gateway.WithRegister(voter))
	}
	f.greet(stdout, p, names)
	if f.readyFile != "" {
		if err := (&brokerFlags{readyFile: f.readyFile}).ready(p.URL()); err != nil {
			return err
		}
	}
	return gateway.Serve(ctx, p, append(opts, gateway.WithLockOptions(lockOpts...))...)
}

// voterFile is what the file of a voter is called in its directory.
const voterFile = "voter"

// startVoter makes this participant a voter.
func (f *serveFlags) startVoter(p *pubsub.Participant, timing qosmutex.Timing, log *slog.Logger) (*inboxes.Voter, error) {
	switch {
	case f.dataDir == "":
		return nil, usageError("--voters needs --data, a directory for this voter's file: it must remember what it voted for")
	case !slices.Contains(f.voters, p.ID()):
		return nil, usageError("--voters %s does not name this one: give --id with one of them, not %q", strings.Join(f.voters, ","), p.ID())
	}
	if err := os.MkdirAll(f.dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	voter, err := inboxes.Start(p, quorum.Options{
		Voters: f.voters, File: filepath.Join(f.dataDir, voterFile), Logger: log,
		Lease: time.Duration(timing.TTL) / 2, Drift: timing.Drift,
	})
	if err != nil {
		return nil, fmt.Errorf("voter %s: %w", p.ID(), err)
	}
	return voter, nil
}

// greet says what is served.
func (f *serveFlags) greet(w io.Writer, p *pubsub.Participant, names []string) {
	what := "every lock that a client names"
	if len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	fmt.Fprintf(w, "gateway  %s for %s\n", p.ID(), what)
	fmt.Fprintf(w, "requests %s/lock/{topic}/client/{client}/request\n", p.Root())
}
