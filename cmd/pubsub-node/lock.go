package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/cmd/pubsub-node/internal/supervisor"
	"padme/pubsub"
	"padme/qosmutex"
)

// lockFlags are the flags of `pubsub-node lock`.
type lockFlags struct {
	priority  int64
	noWait    bool
	wait      time.Duration
	deadline  time.Duration
	hold      time.Duration
	killAfter time.Duration
	shell     bool
	begun     time.Time // when -w and --deadline began to count
}

// left is what is left of a time given by -w or --deadline.
func (f *lockFlags) left(of time.Duration) time.Duration { return max(of-time.Since(f.begun), 0) }

// errWaitOver is the cause of a context that -w ended, and errUndecided of one with -n.
var (
	errWaitOver  = errors.New("the wait given by -w is over")
	errUndecided = errors.New("nobody said whether the lock is free")
)

// undecided is how long -n waits for an answer: a lock that is used for the first time may
// have to be created, by a server that is busy.
const undecided = 10 * time.Second

// unheld is how long to wait until a server has answered that a request is over which got
// no lock. A server that answers later reads the request and its end.
const unheld = 100 * time.Millisecond

// busyBroker is how long a broker may take to let in somebody who waits for as long as it
// takes.
const busyBroker = time.Minute

func newLock(s *session) *cobra.Command {
	f := &lockFlags{}
	cmd := &cobra.Command{
		Use:   "lock NAME[/RESOURCE] [flags] -- COMMAND [ARG]...",
		Short: "Run a command while holding a lock",
		Long: `lock waits for the lock NAME, runs COMMAND while it holds it, and releases it.
NAME may stand for a group of resources: NAME/RESOURCE locks one of them, and
NAME/'*' any free one if the group declares them. Without RESOURCE the resource
is "default".

With --shell COMMAND is your shell ($SHELL), and its end releases the lock.

COMMAND finds in its environment PADME_TOPIC (NAME), PADME_RESOURCE (the one it
got), PADME_HOLDER (the participant) and PADME_FENCE: a number that rises with
every holder. Whoever the command writes to should refuse a lower fence than it
has seen, because no lock can stop a computer that was asleep.

The lock lives as long as COMMAND, and not as long as what COMMAND leaves in the
background. This process gets INT, TERM, HUP and QUIT for COMMAND and hands them on; as
long as it waits for the lock, QUIT prints what it does and ends it with 2.

When the lock is lost (no answer of the server for as long as the lock lasts, its TTL),
or this process dies without a word, as by kill -9, COMMAND and all that it has started
gets TERM, and KILL after --kill-after. Outside Linux that is its process group only, and
on Windows COMMAND only, if this process lives. The next holder may enter meanwhile: only
the fence keeps the effects of the last one out.

The lock is had from a server, which is part of "pubsub-node broker", or else runs as
"pubsub-node serve". A broker that accepts the connection and is too busy to answer is
tried for a minute, or for --timeout or -w if that is given; with -n for 10 seconds.
One that is not there yet is tried for --timeout, -w or --deadline, or else not again.
-w and --deadline count from the start, with the time that connecting takes.

Exit codes: that of COMMAND, 128+n when signal n ended it, or
    1  something else went wrong, see the message
    2  the command line is wrong
   69  no broker answers, or nobody serves locks there: start "pubsub-node broker";
       with -n also: the server does not know yet whether the lock is free
   75  busy: -n was given and the lock is not free, or --deadline cannot be promised
   76  lost: the lock was lost while COMMAND ran, whatever it returned
   77  refused: credentials, access rules, a resource that is not allowed
  124  -w or --deadline was given and the lock did not come in time
  126  COMMAND cannot be run
  127  COMMAND was not found
128+n  signal n (INT, TERM or HUP) came while waiting for the lock`,
		Example: `  pubsub-node lock crane -- ./lift.sh
  pubsub-node lock crane -p 1 -w 30s -- ./lift.sh urgent   # more important, at most 30 s
  pubsub-node lock crane -n -- ./lift.sh || echo "busy"
  pubsub-node lock crane --deadline 5s --hold 2s -- ./lift.sh # by then, or not at all
  pubsub-node lock crane --shell                           # to do several things by hand
  pubsub-node lock frequencies/'*' -- sh -c 'transmit --on "$PADME_RESOURCE"'`,
		Args:              lockArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("wait") && f.wait <= 0 {
				return usageError("-w %v is not positive: use -n not to wait at all", f.wait)
			}
			for name, d := range map[string]time.Duration{"deadline": f.deadline, "hold": f.hold} {
				if cmd.Flags().Changed(name) && d <= 0 {
					return usageError("--%s %v is not positive", name, d)
				}
			}
			return f.run(cmd.Context(), s, args)
		},
	}
	fs := cmd.Flags()
	fs.Int64VarP(&f.priority, "priority", "p", 100, "`priority`: smaller is more important")
	fs.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait: exit 75 when the lock is not free now")
	flags.DurationVar(fs, &f.wait, "wait", "w", 0, "wait at most this long, then exit 124 (default: for ever)")
	flags.DurationVar(fs, &f.killAfter, "kill-after", "", 5*time.Second, "how long COMMAND may take to end after the lock was lost")
	fs.BoolVar(&f.shell, "shell", false, "run your shell, in place of a COMMAND")
	flags.DurationVar(fs, &f.deadline, "deadline", "", 0, "have the lock within this time or not at all: exit 75 at once if the lock's models promise deadlines and this one cannot be promised, else 124")
	flags.DurationVar(fs, &f.hold, "hold", "", 0, "say how long COMMAND takes at most: the deadlines of others are promised on it")
	cmd.AddCommand(newLockCreate(s), newLockConfigure(s), newLockRemove(s), newLockShow(s), newLockList(s), newLockWatch(s), newLockQueue(s), newLockWhy(s), newLockClients(s), newLockBump(s), newLockEvict(s))
	for _, verb := range cmd.Commands() {
		runsNothing(verb)
	}
	return cmd
}

// runsNothing has a verb below lock refuse a command: it was taken for a lock's name.
func runsNothing(verb *cobra.Command) {
	args := verb.Args
	verb.Args = func(cmd *cobra.Command, given []string) error {
		if cmd.ArgsLenAtDash() >= 0 {
			return usageError("%q is a verb below lock, and runs no command: a lock of that name is %s/%s", cmd.Name(), cmd.Name(), qosmutex.DefaultResource)
		}
		return args(cmd, given)
	}
}

func lockArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if shell, err := cmd.Flags().GetBool("shell"); err == nil && shell {
		return shellArgs(args)
	}
	switch {
	case len(args) == 0 || dash == 0:
		return usageError("which lock? give NAME or NAME/RESOURCE")
	case dash < 0 && len(args) == 1:
		return usageError("nothing to run under the lock: add -- COMMAND%s", orList(args))
	case dash < 0:
		return usageError("put -- between the lock and the command: lock %s -- %s%s", args[0], strings.Join(args[1:], " "), orList(args))
	case dash > 1:
		return usageError("one lock at a time: unexpected argument %q before --", args[1])
	case len(args) == dash:
		return usageError("nothing to run under the lock: add a command after --")
	}
	return nil
}

// orList is a hint for who takes the name of a lock for a verb that is called ls here.
func orList(args []string) string {
	if !slices.Contains([]string{listWord, "show", "status"}, args[0]) || len(args) > 2 {
		return ""
	}
	return fmt.Sprintf("; or did you mean %q?", strings.Join(append([]string{"lock ls"}, args[1:]...), " "))
}

// splitLock reads NAME[/RESOURCE].
func splitLock(arg string) (name, resource string, err error) {
	name, resource, given := strings.Cut(arg, "/")
	if name == "" || given && resource == "" {
		return "", "", usageError("lock %q: want NAME or NAME/RESOURCE", arg)
	}
	if !given {
		resource = qosmutex.DefaultResource
	}
	return name, resource, nil
}

func (f *lockFlags) check(cmd []string) (string, error) {
	if f.noWait && f.wait > 0 {
		return "", usageError("-n and -w contradict each other: give one of them")
	}
	if f.killAfter < 0 {
		return "", usageError("--kill-after %v is negative", f.killAfter)
	}
	return findCommand(cmd[0])
}

func (f *lockFlags) run(ctx context.Context, s *session, args []string) error {
	name, resource, err := splitLock(args[0])
	if err != nil {
		return err
	}
	command := f.command(args)
	path, err := f.check(command)
	if err != nil {
		return err
	}
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	f.begun = time.Now()
	took := &stopwatch{last: f.begun}
	if s.verbose {
		defer func() {
			fmt.Fprintf(os.Stderr, "pubsub-node: lock %s/%s: %s\n", printable(name), printable(resource), took)
		}()
	}
	keeper := supervisor.Start() // which gets ready while we connect
	defer keeper.Close()
	p, locker, err := f.attach(ctx, s, name)
	if err != nil {
		return f.explain(ctx, err, name, resource)
	}
	defer leave(p)
	held, lost := false, (*exitError)(nil)
	defer func() {
		giveBack(sigs, p, locker, held)
		took.lap("release")
	}()
	took.lap("connect")
	hold, err := f.acquire(ctx, s, p, locker, resource)
	took.lap("lock")
	if held = err == nil; !held {
		return f.explain(ctx, err, name, resource)
	}
	defer took.lap("run")
	err = f.runHolding(ctx, sigs, keeper, hold, path, command, p.ID())
	held = !errors.As(err, &lost) || lost.code != exitLost // what is lost is not given back
	return err
}

// giveBack ends the client, and says why if that takes long: while the broker or the server
// is away, the server cannot know that the lock is free, and everybody else would wait for
// the lease. A signal ends it at once.
func giveBack(sigs *signals, p *pubsub.Participant, locker qosmutex.Locker, held bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !held && p.Connected() { // hardly anybody waits for that, and the time of -w is over: leave sends what is still to be sent
		ctx, cancel = context.WithTimeout(ctx, unheld)
		defer cancel()
	}
	sigs.handTo(func(syscall.Signal) { cancel() })
	what := "the request is over"
	if held {
		what = "the lock is free"
	}
	slow := time.AfterFunc(time.Second, func() {
		whom := "broker"
		if p.Connected() {
			whom = "server"
		}
		fmt.Fprintf(os.Stderr, "pubsub-node: waiting a few seconds for the %s, to tell it that %s; interrupt to leave that to its lease\n", whom, what)
	})
	defer slow.Stop()
	_ = locker.Close(ctx)
}

// patience gives the time that connecting may take: no more than -w or --deadline. If no flag says,
// a command that waits in line may as well wait for a broker that hundreds of commands have just
// connected to.
func (f *lockFlags) patience(s *session) {
	most, flag := f.wait, "-w"
	if f.deadline > 0 && (most == 0 || f.deadline < most) {
		most, flag = f.deadline, "--deadline"
	}
	switch {
	case f.noWait && !s.timeoutGiven:
		s.absent = f.deadline
	case f.noWait:
	case most > 0 && (!s.timeoutGiven || most < s.timeout):
		s.timeout, s.bound, s.absent = most, flag, most
	case !s.timeoutGiven:
		s.timeout = max(s.timeout, busyBroker)
	}
}

// attach connects, as a client of whoever serves locks. The caller closes both if there is
// no error.
func (f *lockFlags) attach(ctx context.Context, s *session, name string) (*pubsub.Participant, qosmutex.Locker, error) {
	f.patience(s)
	will, session := qosmutex.LastWill(s.participantID())
	p, err := s.joinAs(ctx, "member or client", pubsub.Unannounced(), will)
	if err != nil {
		return nil, nil, err
	}
	patience := s.timeout
	if s.bound != "" {
		patience = f.left(patience)
	}
	dialing, cancel := context.WithTimeoutCause(ctx, patience, s.joinTimeout())
	defer cancel()
	client, err := qosmutex.Dial(dialing, p, name, session, qosmutex.WithLogger(s.logger(levelOff)))
	if err != nil {
		leave(p)
		if dialing.Err() != nil && ctx.Err() == nil { // a broker that has gone away since
			err = fmt.Errorf("%w: %w", pubsub.ErrUnreachable, err) // it says what was waited for, and for how long
		}
		return nil, nil, err
	}
	return p, client, nil
}

// acquire takes the lock.
func (f *lockFlags) acquire(ctx context.Context, s *session, p *pubsub.Participant, locker qosmutex.Locker, resource string) (*qosmutex.Hold, error) {
	wait, cause := f.wait, errWaitOver
	if f.noWait {
		wait, cause = undecided, errUndecided
	}
	if wait > 0 {
		if !f.noWait {
			wait = f.left(wait)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, cause)
		defer cancel()
	}
	progress := watchProgress(ctx, p, locker, resource, s.verbose)
	defer progress.stop()
	take := locker.Lock
	if f.noWait {
		take = locker.TryLock
	}
	opts := []qosmutex.LockOption{qosmutex.WithPriority(f.priority), qosmutex.WithHold(f.hold)}
	if f.deadline > 0 {
		opts = append(opts, qosmutex.WithDeadline(time.Now().Add(f.left(f.deadline))))
	}
	hold, err := take(ctx, resource, opts...)
	if w := locker.Warning(resource); w != "" && !errors.Is(err, qosmutex.ErrUndeclared) {
		fmt.Fprintf(os.Stderr, "pubsub-node: warning: %s\n", printable(w))
	}
	return hold, err
}

// stopwatch is what took how long.
type stopwatch struct {
	last time.Time
	laps []string
}

func (w *stopwatch) lap(name string) {
	now := time.Now()
	w.laps = append(w.laps, fmt.Sprintf("%s %.1f ms", name, now.Sub(w.last).Seconds()*1000))
	w.last = now
}

func (w *stopwatch) String() string { return strings.Join(w.laps, ", ") }

// explain says in the words of the command line why the lock was not got.
func (f *lockFlags) explain(ctx context.Context, err error, name, resource string) error {
	var unready *qosmutex.NotReadyError
	show := shellWord(name)
	switch cause := context.Cause(ctx); {
	case errors.As(cause, new(interrupted)):
		return fmt.Errorf("while waiting for lock %s/%s: %w", name, resource, cause)
	case errors.Is(err, errWaitOver) && errors.As(err, &unready):
		return &exitError{exitTimeout, fmt.Errorf("lock %s/%s did not come within %v: %s", name, resource, f.wait, unready.Why)}
	case errors.Is(err, errWaitOver):
		return &exitError{exitTimeout, fmt.Errorf("lock %s/%s did not come within %v: see who has it, if anybody has, with \"pubsub-node lock ls %s\"", name, resource, f.wait, show)}
	case errors.Is(err, errUndecided) && errors.As(err, &unready):
		return &exitError{exitUnavailable, fmt.Errorf("lock %s/%s: nobody has said within %v whether it is free: %s", name, resource, undecided, unready.Why)}
	case errors.Is(err, errUndecided):
		return &exitError{exitUnavailable, fmt.Errorf("nobody has said within %v whether lock %s/%s is free: it may have no root at present, see \"pubsub-node doctor\"", undecided, name, resource)}
	case errors.Is(err, qosmutex.ErrDeadlineMissed) && errors.As(err, &unready):
		return &exitError{exitTimeout, fmt.Errorf("%w: lock %s/%s did not come within %v: %s", qosmutex.ErrDeadlineMissed, name, resource, f.deadline, unready.Why)}
	case errors.Is(err, qosmutex.ErrDeadlineMissed):
		return fmt.Errorf("%w: it did not come within %v: see who has it, if anybody has, with \"pubsub-node lock ls %s\"", err, f.deadline, show)
	case errors.Is(err, qosmutex.ErrUnsupported) && f.deadline > 0 && resource == qosmutex.Any:
		return usageError("--deadline with %s/%s: this lock promises deadlines, for one resource at a time: name one, or leave --deadline out", name, resource)
	case errors.Is(err, qosmutex.ErrBusy):
		return &exitError{exitBusy, fmt.Errorf("busy: lock %s/%s is not free now: see who has it with \"pubsub-node lock ls %s\", or wait with -w", name, resource, show)}
	}
	return err
}

// withoutPassword leaves our password out of a command's environment: it is not the
// command's, which may print its environment or hand it on.
func withoutPassword(environment []string) []string {
	return slices.DeleteFunc(environment, func(v string) bool { return strings.HasPrefix(v, "PADME_PASSWORD=") })
}

// runHolding runs the command and releases the lock.
func (f *lockFlags) runHolding(ctx context.Context, sigs *signals, keeper *supervisor.Supervisor, hold *qosmutex.Hold, path string, command []string, holder string) error {
	environment := append(withoutPassword(os.Environ()),
		"PADME_TOPIC="+hold.Topic(),
		"PADME_RESOURCE="+hold.Resource(),
		"PADME_HOLDER="+holder,
		"PADME_FENCE="+strconv.FormatUint(hold.Fence(), 10),
	)
	f.welcome(hold)
	code, err := runUnder(ctx, hold.Context(), sigs, keeper, &supervisor.Command{
		Path: path, Argv: command, Env: environment, HangUp: f.shell, KillAfter: f.killAfter,
	})
	unlockErr := hold.Unlock()
	switch {
	case errors.Is(unlockErr, qosmutex.ErrLost):
		lost := fmt.Sprintf("lock %s/%s with fence %d was lost, and another may hold it now", hold.Topic(), hold.Resource(), hold.Fence())
		if err != nil {
			return &exitError{exitLost, fmt.Errorf("%s: the command was stopped: %w", lost, err)}
		}
		return &exitError{exitLost, fmt.Errorf("%s: the command was stopped, its exit code was %d", lost, code)}
	case err != nil:
		return err
	case unlockErr != nil: // released all the same; the root notices after the TTL
		fmt.Fprintln(os.Stderr, message(unlockErr))
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}
