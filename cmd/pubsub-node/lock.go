package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
)

// defaultResource is what `lock NAME` locks.
const defaultResource = "default"

// lockFlags are the flags of `pubsub-node lock`.
type lockFlags struct {
	priority  int64
	noWait    bool
	wait      time.Duration
	killAfter time.Duration
}

// errWaitOver is the cause of a context that -w ended.
var errWaitOver = errors.New("the wait given by -w is over")

func newLock(s *session) *cobra.Command {
	f := &lockFlags{}
	cmd := &cobra.Command{
		Use:   "lock NAME[/RESOURCE] [flags] -- COMMAND [ARG]...",
		Short: "Run a command while holding a lock",
		Long: `lock waits for the lock NAME, runs COMMAND while it holds it, and releases it.
NAME may stand for a group of resources: NAME/RESOURCE locks one of them, and
NAME/'*' any free one if the group declares them. Without RESOURCE the resource
is "default".

COMMAND finds in its environment PADME_TOPIC (NAME), PADME_RESOURCE (the one it
got), PADME_HOLDER (the participant) and PADME_FENCE: a number that rises with
every holder. Whoever the command writes to should refuse a lower fence than it
has seen, because no lock can stop a computer that was asleep.

The lock lives as long as this process. It gets INT, TERM, HUP and QUIT for
COMMAND and hands them on. When the lock is lost (no contact to the root for its
TTL) COMMAND and all that it started gets TERM, and KILL after --kill-after.

Exit codes: that of COMMAND, 128+n when signal n ended it, or
    1  something else went wrong, see the message
    2  the command line is wrong
   69  no broker answers, or the lock has no root: start "pubsub-node broker"
   75  busy: -n was given and the lock is not free
   76  lost: the lock was lost while COMMAND ran, whatever it returned
   77  refused: credentials, an id that is in use, a resource that is not allowed
  124  -w was given and the lock did not come in time
  126  COMMAND cannot be run
  127  COMMAND was not found
128+n  signal n came while waiting for the lock`,
		Example: `  pubsub-node lock crane -- ./lift.sh
  pubsub-node lock crane -p 1 -w 30s -- ./lift.sh urgent   # more important, at most 30 s
  pubsub-node lock crane -n -- ./lift.sh || echo "busy"
  pubsub-node lock frequencies/'*' -- sh -c 'transmit --on "$PADME_RESOURCE"'`,
		Args:              lockArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("wait") && f.wait <= 0 {
				return usageError("-w %v is not positive: use -n not to wait at all", f.wait)
			}
			return f.run(cmd.Context(), s, args)
		},
	}
	fs := cmd.Flags()
	fs.Int64VarP(&f.priority, "priority", "p", 100, "`priority`: smaller is more important")
	fs.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait: exit 75 when the lock is not free now")
	fs.DurationVarP(&f.wait, "wait", "w", 0, "wait at most this long, then exit 124 (default: for ever)")
	fs.DurationVar(&f.killAfter, "kill-after", 5*time.Second, "how long COMMAND may take to end after the lock was lost")
	cmd.AddCommand(newLockList(s), newLockWatch(s), newLockQueue(s), newLockClients(s), newLockBump(s), newLockEvict(s))
	return cmd
}

func lockArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return usageError("which lock? give NAME or NAME/RESOURCE")
	case dash < 0 && len(args) == 1:
		return usageError("nothing to run under the lock: add -- COMMAND")
	case dash < 0:
		return usageError("put -- between the lock and the command: lock %s -- %s", args[0], strings.Join(args[1:], " "))
	case dash > 1:
		return usageError("one lock at a time: unexpected argument %q before --", args[1])
	case len(args) == dash:
		return usageError("nothing to run under the lock: add a command after --")
	}
	return nil
}

// splitLock reads NAME[/RESOURCE].
func splitLock(arg string) (name, resource string, err error) {
	name, resource, given := strings.Cut(arg, "/")
	if name == "" || given && resource == "" {
		return "", "", usageError("lock %q: want NAME or NAME/RESOURCE", arg)
	}
	if !given {
		resource = defaultResource
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
	command := args[1:]
	path, err := f.check(command)
	if err != nil {
		return err
	}
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	topic, hold, err := f.acquire(ctx, p, name, resource)
	if errors.Is(err, qosmutex.ErrNoRoot) {
		return fmt.Errorf("%w%s", err, s.lastRoot(ctx, p, name))
	}
	if err != nil {
		return err
	}
	defer func() { _ = closeWithin(topic.Close) }()
	return f.runHolding(ctx, sigs, hold, path, command, p.ID())
}

// acquire opens the lock topic and takes the lock. The caller closes the topic
// if there is no error.
func (f *lockFlags) acquire(ctx context.Context, p *pubsub.Participant, name, resource string) (*qosmutex.Topic, *qosmutex.Hold, error) {
	if f.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.wait, errWaitOver)
		defer cancel()
	}
	progress := watchProgress(ctx, p, name, resource)
	defer progress.stop()
	topic, err := open(ctx, p, name)
	if err != nil {
		return nil, nil, f.explain(ctx, err, name, resource)
	}
	progress.opened()
	take := topic.Lock
	if f.noWait {
		take = topic.TryLock
	}
	hold, err := take(ctx, resource, qosmutex.WithPriority(f.priority))
	if err != nil {
		_ = closeWithin(topic.Close)
		return nil, nil, f.explain(ctx, err, name, resource)
	}
	return topic, hold, nil
}

// rootTakes is how long a lock node may take to answer before there is said to be
// none: a busy machine or a bad radio link.
const rootTakes = 2 * time.Second

// open joins the lock topic. Being told at once that there is no root would be
// wrong too often, so it asks for a while.
func open(ctx context.Context, p *pubsub.Participant, name string) (*qosmutex.Topic, error) {
	for begun := time.Now(); ; {
		topic, err := qosmutex.Open(ctx, p, name)
		if !errors.Is(err, qosmutex.ErrNoRoot) || time.Since(begun) > rootTakes || ctx.Err() != nil {
			return topic, err
		}
	}
}

// lastRoot says who was the root of a lock that has none now, as the broker remembers.
func (s *session) lastRoot(ctx context.Context, p *pubsub.Participant, name string) string {
	views, err := lockViews(ctx, p, s)
	if err != nil {
		return ""
	}
	for _, v := range views {
		if v.Topic == name {
			return fmt.Sprintf("; its last root was %s: if voters keep who is the root, \"pubsub-node voters show\" says whether enough of them run", v.Root)
		}
	}
	return ""
}

// explain says in the words of the command line why the lock was not got.
func (f *lockFlags) explain(ctx context.Context, err error, name, resource string) error {
	switch cause := context.Cause(ctx); {
	case errors.As(cause, new(interrupted)):
		return fmt.Errorf("while waiting for lock %s/%s: %w", name, resource, cause)
	case errors.Is(cause, errWaitOver):
		return &exitError{exitTimeout, fmt.Errorf("lock %s/%s did not come within %v: see who has it with \"pubsub-node lock ls %s\"", name, resource, f.wait, name)}
	case errors.Is(err, qosmutex.ErrBusy):
		return fmt.Errorf("%w: see who has it with \"pubsub-node lock ls %s\", or wait with -w", err, name)
	}
	return err
}

// runHolding runs the command and releases the lock.
func (f *lockFlags) runHolding(ctx context.Context, sigs *signals, hold *qosmutex.Hold, path string, command []string, holder string) error {
	environment := append(os.Environ(),
		"PADME_TOPIC="+hold.Topic(),
		"PADME_RESOURCE="+hold.Resource(),
		"PADME_HOLDER="+holder,
		"PADME_FENCE="+strconv.FormatUint(hold.Fence(), 10),
	)
	code, err := runUnder(ctx, hold.Context(), sigs, path, command, environment, f.killAfter)
	releasing, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	unlockErr := hold.Unlock(releasing)
	switch {
	case errors.Is(unlockErr, qosmutex.ErrLost):
		if err != nil {
			return fmt.Errorf("%w: the command was stopped: %w", unlockErr, err)
		}
		return fmt.Errorf("%w: the command was stopped, its exit code was %d", unlockErr, code)
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
