package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register/caspaxos"
)

// serveFlags are the flags of `pubsub-node serve`.
type serveFlags struct {
	metrics     metricsFlags
	timing      string
	readyFile   string
	voters      []string
	dataDir     string
	memory      bool
	settings    settingsFlags
	topicLimits topicLimitFlags
	clients     gatewayLimitFlags
	voter       voterLimitFlags

	votersGiven bool
}

func newServe(s *session) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve [NAME]...",
		Short: "Let any MQTT client take locks",
		Long: `serve offers the locks NAME, or every lock that a client names, to MQTT clients
that do not have this library. "pubsub-node broker" does that itself: serve is for
other brokers, and to share its work or take over from it. Clients publish JSON on

  PREFIX/v1/DOMAIN/lock/{topic}/client/{client}/request

and are answered on .../answer; docs/clients.md has examples for the shell, Python
and JavaScript. Locks that have no root are created: those named at once, others
when a client first asks or, with --voters, a participant.

Several may run, with the same settings. For each lock one of them answers. Ended and
started again within half a TTL, it costs nobody a lock; if it does not come back, another
takes over, and clients whose lock was held by it lose it, and ask again.

At a broker that is not "pubsub-node broker", nobody else keeps who is the root of a lock.
A gateway that is no voter keeps it in a file. With --memory, after a longer time, or where
another was the root in between, it first waits until whatever was granted before is over,
also if that had a longer --ttl. Three or five keep it as voters: give each the same
--voters, a --id that is among them, and a --data directory of its own. They begin once all
of them run. Then locks go on as long as a majority runs; a voter that loses its file does
not vote any more. "pubsub-node voters" shows them, replaces one that is gone, and starts
over if a majority is.

At a broker with users, its user must be a gateway: see broker passwd --role.
The --max flags bound what clients can make it spend, or members a voter: what goes
beyond one is logged, and counted in qosmutex_gateway_limited_total and
qosmutex_voter_limited_total.
INT or TERM ends it. What its clients hold it leaves to its next start, or, with --memory,
tells them that it is lost.`,
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
			f.votersGiven = cmd.Flags().Changed("voters")
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, cmd.OutOrStdout(), args)
		},
	}
	fs := cmd.Flags()
	f.metrics.add(cmd)
	fs.StringVar(&f.timing, "timing", "lan", "of locks that it creates: how soon a silent holder counts as dead: local (1s), lan (3s) or wan (15s)")
	fs.StringVar(&f.readyFile, "ready-file", "", "`file` that gets the broker's URL once it is connected")
	fs.StringSliceVar(&f.voters, "voters", nil, "`ids` of the 1, 3 or 5 that keep who is the root of each lock, the same for all of them; --id is one of them")
	fs.StringVar(&f.dataDir, "data", "", "`directory` in which the locks survive a restart, or of this voter's file; needed with --voters (default: a directory of this user and broker)")
	fs.BoolVar(&f.memory, "memory", false, "keep nothing of the locks: a restart ends those of clients, and nothing is granted for a while after it")
	f.settings.add(cmd, " of the locks NAME, or, without NAME, of locks that it creates, until others are declared")
	f.settings.addTTL(cmd, "of locks that it creates: how soon a silent holder counts as dead, in place of that of --timing; refused if a lock NAME has another")
	f.topicLimits.add(cmd)
	f.clients.add(cmd)
	f.voter.add(cmd)
	return cmd
}

func (f *serveFlags) run(ctx context.Context, s *session, stdout io.Writer, names []string) (err error) {
	timing, err := parseTiming(f.timing)
	if err != nil {
		return err
	}
	if timing, err = f.settings.timing(timing); err != nil {
		return err
	}
	settings, err := f.settings.options()
	if err != nil {
		return err
	}
	limits, err := f.topicLimits.option(f.metrics.named)
	if err != nil {
		return err
	}
	clients, err := f.clients.option()
	if err != nil {
		return err
	}
	if err := errors.Join(f.metrics.check(), f.checkVoters(s.participantID()), f.voter.check(len(f.voters) > 0)); err != nil {
		return err
	}
	log := s.logger(slog.LevelWarn)
	opts := []gateway.Option{gateway.WithTopics(names...), gateway.WithLogger(log), clients}
	lockOpts := append(slices.Clone(settings),
		qosmutex.WithTiming(timing), qosmutex.WithLogger(log), limits,
		qosmutex.WithNodePriority(math.MinInt64+1), // the root is where most requests come from, unless one is next to the broker
	)
	registry, joining := metricsOfProcess(), []pubsub.Option{servesLocks(len(f.voters) > 0)}
	if f.metrics.address != "" {
		stop, err := f.metrics.serve(ctx, registry, log)
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(stdout, "metrics  http://%s/metrics\n", f.metrics.address)
		opts = append(opts, gateway.WithMetrics(registry))
		lockOpts = append(lockOpts, qosmutex.WithMetrics(registry))
		joining = append(joining, pubsub.WithMetrics(registry))
	}
	kept := &keeping{}
	if len(f.voters) == 0 {
		if kept, err = f.keepOwn(ctx, s); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kept.close()) }() // after the participant
	}
	p, err := s.joinAs(ctx, "gateway", append(joining, kept.joining...)...)
	if err != nil {
		return err
	}
	defer leave(p)
	if len(f.voters) > 0 {
		if kept, err = f.keepAsVoter(p, timing, log, registry); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kept.close()) }()
	}
	server, err := qosmutex.NewServer(p, append(lockOpts, kept.options...)...)
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listen := server.Listen
	if len(f.voters) > 0 && len(names) == 0 { // all that serve have one register: it does not matter which of them opens a lock
		listen = server.Run
	}
	listening.Go(func() { _ = listen(ctx) }) // what ends it before ctx ends serving, too
	defer listening.Wait()
	defer cancel(nil)
	listening.Go(func() { f.warnOfDefaults(ctx, server, timing) })
	declared, refusal := make(chan struct{}), error(nil)
	opts = append(opts, gateway.WithReady(func() {
		if <-declared; refusal != nil {
			return
		}
		f.welcome(stdout, p, names, kept)
		if err := (&brokerFlags{readyFile: f.readyFile}).ready(p.URL()); err != nil {
			cancel(err)
		}
	}))
	err = kept.serveUntil(ctx, server, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() { // meanwhile clients go on with what they hold
			defer close(declared)
			if refusal = f.declareAll(ctx, server, kept, names, settings); refusal != nil && !kept.leave(server) {
				stop()
			}
		}()
		err := gateway.Serve(ctx, server, opts...)
		stop()
		<-declared
		return cmp.Or(refusal, err)
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.As(cause, new(interrupted)) {
		return cause
	}
	return err
}

// declareAll declares the settings of the locks that a gateway offers by name, and refuses
// a TTL that they cannot get.
func (f *serveFlags) declareAll(ctx context.Context, server *qosmutex.Server, kept *keeping, names []string, settings []qosmutex.Option) error {
	if len(settings) == 0 && !f.settings.given("ttl") {
		return nil
	}
	for _, name := range names {
		topic, err := server.Topic(ctx, name)
		if err != nil {
			return err
		}
		if len(settings) > 0 {
			err := topic.Declare(ctx, settings...)
			if errors.Is(err, qosmutex.ErrConflict) && len(f.voters) == 0 && kept.goesOn() && topic.View().Root == server.Participant().ID() { // an earlier start had other flags
				fmt.Fprintf(os.Stderr, "pubsub-node: warning: lock %s had other settings, and gets those of this command line\n", printable(name))
				err = topic.Configure(ctx, settings...)
			}
			if err != nil {
				return err
			}
		}
		if ttl := time.Duration(topic.Status().TTL); f.settings.given("ttl") && ttl != f.settings.ttl {
			return fmt.Errorf("--ttl %v: lock %s has a TTL of %v, which does not change: leave --ttl out; for another TTL remove the lock while it is served, with: pubsub-node lock rm %s", f.settings.ttl, printable(name), ttl, shellWord(name))
		}
	}
	return nil
}

// warnOfDefaults warns of a gateway that keeps its locks in memory, as this one, and gives
// them other settings by default: a lock gets those of whoever creates it again when the
// other one ends. What the gateways agree in has the defaults of the one that began.
func (f *serveFlags) warnOfDefaults(ctx context.Context, server *qosmutex.Server, timing qosmutex.Timing) {
	topic, err := server.Topic(ctx, gateway.RoleTopic)
	if err != nil || len(f.voters) > 0 {
		return
	}
	theirs, self := topic.View(), server.Participant().ID()
	resources := slices.Sorted(slices.Values(f.settings.resources))
	models, open := theirs.Models, f.settings.open || len(resources) == 0
	if m, err := qosmutex.ParseModels(cmp.Or(f.settings.models, "LFFF")); err == nil {
		models = m.String()
	}
	if theirs.Root == self || theirs.Models == models && theirs.Open == open && slices.Equal(theirs.Resources, resources) && theirs.TTL == timing.TTL.Seconds() {
		return
	}
	for peer, err := range server.Participant().Peers(ctx) {
		if err != nil || peer.ID == theirs.Root && peer.UserData[jsonlock.CreatesKey] == jsonlock.ServesLocks {
			return // as a broker does, which keeps the settings in a register and creates all locks
		}
		if peer.ID == theirs.Root {
			break
		}
	}
	describe := func(models string, resources []string, open bool, ttl float64) string {
		return fmt.Sprintf("models %s, resources %s, TTL %vs", models, resourcesText(resources, open), ttl)
	}
	same := fmt.Sprintf("pubsub-node serve --models %s --ttl %vs", theirs.Models, theirs.TTL)
	if len(theirs.Resources) > 0 {
		same += " --resources " + shellWord(strings.Join(theirs.Resources, ","))
		if theirs.Open {
			same += " --open"
		}
	}
	fmt.Fprintf(os.Stderr, "pubsub-node: warning: %s gives locks by default %s, and this gateway, %s, %s: locks get those of this one when it takes over; start both with the same, here with: %s\n",
		printable(theirs.Root), printable(describe(theirs.Models, theirs.Resources, theirs.Open, theirs.TTL)), printable(self),
		printable(describe(models, resources, open, timing.TTL.Seconds())), printable(same))
}

// checkVoters reports what is wrong with --voters and --data, and puts the list in order.
func (f *serveFlags) checkVoters(self string) error {
	if len(f.voters) == 0 {
		if f.votersGiven {
			return usageError("--voters names nobody: name 1, 3 or 5, separated by commas")
		}
		if f.memory && f.dataDir != "" {
			return usageError("--memory keeps nothing, and --data is where it is kept: give one of them")
		}
		return nil
	}
	if f.memory {
		return usageError("--memory keeps nothing, and a voter must remember what it voted for: leave it out, or --voters")
	}
	for i, id := range f.voters {
		f.voters[i] = strings.TrimSpace(id)
		if _, err := pubsub.EncodeLevel(f.voters[i]); err != nil {
			return usageError("--voters: %w", err)
		}
	}
	list := strings.Join(f.voters, ",")
	sorted := slices.Sorted(slices.Values(f.voters))
	for i, id := range sorted[1:] {
		if id == sorted[i] {
			return usageError("--voters %s names %s twice: each voter has an id of its own", list, id)
		}
	}
	switch n := len(sorted); {
	case n == 2 || n == 4:
		return usageError("--voters names %d voters, %s: name %d: of %d a majority is %d, so the last one adds nothing but one more that can be missing", n, list, n-1, n, n/2+1)
	case n > caspaxos.MaxVoters:
		return usageError("--voters names %d voters: name 1, 3 or 5; others may run without --voters, as gateways", n)
	case f.dataDir == "":
		return usageError("--voters needs --data, a directory for this voter's file: it must remember what it voted for")
	case n == 1 && strings.Contains(list, " "):
		return usageError("--voters %q is one id: separate several by commas", list)
	case !slices.Contains(sorted, self):
		return usageError("--voters %s does not name this one: give --id with one of them, not %q", list, self)
	}
	f.voters = sorted
	return nil
}

// welcome says what is served. The voters that are enrolled, by the file, may be others than
// those of --voters.
func (f *serveFlags) welcome(w io.Writer, p *pubsub.Participant, names []string, k *keeping) {
	what := "every lock that a client names"
	if len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	fmt.Fprintf(w, "gateway  %s for %s\n", p.ID(), what)
	switch {
	case len(f.voters) > 0:
		fmt.Fprintf(w, "voter    one of %s, in %s; see them all with \"pubsub-node voters show\"\n", strings.Join(k.enrolled, ","), f.dataDir)
	case k.goesOn():
		fmt.Fprintf(w, "locks    kept in %s\n", k.where)
	case k.where != inMemory:
		fmt.Fprintf(w, "locks    kept in %s; a restart ends those of clients\n", k.where)
	default:
		fmt.Fprintln(w, "locks    kept in memory, so a restart ends those of clients")
	}
	if k.why != "" {
		fmt.Fprintf(os.Stderr, "pubsub-node: warning: the locks are kept in memory: %s\n", printable(k.why))
	}
	if !slices.Equal(slices.Sorted(slices.Values(k.enrolled)), f.voters) {
		fmt.Fprintf(w, "         not of %s, as --voters says: that counts for a new file only; others take part by \"pubsub-node voters replace\"\n", strings.Join(f.voters, ","))
	}
	fmt.Fprintf(w, "requests %s/lock/{topic}/client/{client}/request\n", p.Root())
}
