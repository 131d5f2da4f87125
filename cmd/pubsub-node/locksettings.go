package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

// settingsTake bounds the change of a lock's settings.
const settingsTake = 20 * time.Second

// viewTakes bounds the wait for what the root of a lock publishes.
const viewTakes = time.Second

// errSettingsTake is the cause of a context that settingsTake ended.
var errSettingsTake = errors.New("the root of the lock did not confirm it in time")

func newLockCreate(s *session) *cobra.Command {
	f, asJSON := &settingsFlags{}, false
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Declare the settings of a lock, and create it if need be",
		Long: `create has the lock NAME created, if there is none, and declares its settings: the
models by which it grants, and the resources that it has. What is declared replaces what
a broker or a gateway chose by default, also while the lock is in use; from then on any
other declaration is refused as a conflict, and only "lock configure" changes it. A
setting that is not given stays as it is. The TTL belongs to a lock from its creation on
and never changes. Then it shows what holds, as "lock show" does, and from when on the
lock is granted if that is not at once: after a start of the broker, what was granted
before has to be over, which takes as long as the TTL of the lock.

"lock rm" forgets what was declared.

It looks for a root, or for somebody who creates one, for 5 s; --timeout, if given, bounds
that together with connecting.

Exit codes: 1 the lock has other settings, 69 nobody creates it or can grant it, and those
of "pubsub-node lock --help".`,
		Example: `  pubsub-node lock create frequencies --resources 146.52,446.00
  pubsub-node lock create crane --models fair-replace-forward-forward --ttl 10s
  pubsub-node lock create files --open     # any name is a resource`,
		Args:              declaredArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options()
			if err != nil {
				return err
			}
			timing, err := f.timing(qosmutex.LAN())
			if err != nil {
				return err
			}
			if f.given("ttl") {
				opts = append(opts, qosmutex.WithTiming(timing))
			}
			return asMember(cmd, s, args[0], asJSON, opts, nil)
		},
	}
	f.add(cmd, "")
	f.addTTL(cmd, "how soon a silent holder counts as dead (default: as the broker or gateway says)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, as in \"lock show --json\"")
	return cmd
}

func newLockConfigure(s *session) *cobra.Command {
	f, asJSON := &settingsFlags{}, false
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "Change the settings of a lock, whoever declared them",
		Long: `configure changes the models or the resources of the lock NAME while it is in use, and
settles a conflict between declarations: what it says is declared from then on. Then it
shows what holds, as "lock show" does.

--resources names all that there are to be. Who holds another one keeps it to the end of
the hold; who waits for it is refused. --open or --open=false alone leaves those that
are declared. The TTL of a lock never changes.

Exit codes: 1 nothing is known of the lock, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node lock configure crane --models aging-forward-forward-forward
  pubsub-node lock configure frequencies --resources 146.52,446.00,446.10
  pubsub-node lock configure frequencies --open=false`,
		Args:              declaredArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options()
			if err != nil {
				return err
			}
			alone := f.given("open") && !f.given("resources")
			if len(opts) == 0 && !alone {
				return usageError("nothing to change: give --models, --resources or --open")
			}
			return asMember(cmd, s, args[0], asJSON, nil, func(ctx context.Context, topic *qosmutex.Topic) error {
				if alone {
					opts = append(opts, qosmutex.WithResources(topic.Resources()...))
				}
				return topic.Configure(ctx, opts...)
			})
		},
	}
	f.add(cmd, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, as in \"lock show --json\"")
	return cmd
}

func newLockShow(s *session) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the settings of a lock",
		Long: `show prints what holds for the lock NAME as a whole, as its root last published it: the
models, the resources, who declared them, and the TTL. Who holds it "lock ls" shows. A
root that is not alive is named on standard error: what is shown is of before.

Exit codes: 1 nothing is known of the lock, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node lock show crane
  pubsub-node lock show frequencies --json | jq .resources`,
		Args:              settingsArgs,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.whileJoined(cmd.Context(), s.joinToRead, func(ctx context.Context, p *pubsub.Participant) error {
				views, err := lockViews(ctx, p, s)
				if err != nil {
					return err
				}
				v := viewOf(views, args[0])
				if v == nil {
					return nothingKnown(ctx, s, p, args[0])
				}
				dead, err := s.deadRoots(ctx, p, []string{v.Root})
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), []shownView{{*v, dead[v.Root]}})
				}
				return writeView(cmd.OutOrStdout(), v, false)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the JSON object that the root publishes, with \"root_dead\" if it is not alive")
	return cmd
}

// viewOf is that of a lock; nil: there is none.
func viewOf(views []qosmutex.View, name string) *qosmutex.View {
	i := slices.IndexFunc(views, func(v qosmutex.View) bool { return v.Topic == name })
	if i < 0 {
		return nil
	}
	return &views[i]
}

// settingsArgs wants the name of a lock without a resource.
func settingsArgs(cmd *cobra.Command, args []string) error {
	if err := argCount(1, 1, "NAME")(cmd, args); err != nil {
		return err
	}
	name, resource, given := strings.Cut(args[0], "/")
	switch {
	case name == "":
		return usageError("lock %q: NAME is empty", args[0])
	case given:
		return usageError("lock %q: want NAME alone; settings are those of all its resources, which --resources names, such as --resources %s", args[0], resource)
	}
	return nil
}

// declaredArgs is settingsArgs for a lock that can be declared.
func declaredArgs(cmd *cobra.Command, args []string) error {
	if err := settingsArgs(cmd, args); err != nil {
		return err
	}
	if err := gateway.CheckTopic(args[0]); err != nil {
		return usageError("%w", err)
	}
	return nil
}

// asMember opens a lock for as long as do takes, nil: not at all, and shows what holds then.
func asMember(cmd *cobra.Command, s *session, name string, asJSON bool, opts []qosmutex.Option, do func(context.Context, *qosmutex.Topic) error) error {
	ctx, sigs := watchSignals(cmd.Context())
	defer sigs.stop()
	takes, creation, cause := settingsTake, creationTakes, errSettingsTake
	if s.timeoutGiven { // bounds all of it
		takes, creation, cause = s.timeout, s.timeout, s.joinTimeout()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, takes, cause)
	defer cancel()
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	if do != nil { // opening it would create it
		if views, err := lockViews(ctx, p, s); err != nil || viewOf(views, name) == nil {
			return cmp.Or(endedBy(ctx, err), nothingKnown(ctx, s, p, name))
		}
	}
	topic, err := openMember(ctx, p, name, creation, opts...)
	if err != nil {
		return endedBy(ctx, err)
	}
	defer func() { _ = closeWithin(topic.Close) }()
	if do != nil {
		if err := do(ctx, topic); err != nil {
			return endedBy(ctx, err)
		}
	}
	v := topic.View()
	v.GrantsFrom = grantsFrom(ctx, p, &v)
	return writeView(cmd.OutOrStdout(), &v, asJSON)
}

// grantsFrom is when the root of a lock grants it first, as that publishes; zero: now, or it
// does not publish soon, as when it has just changed.
func grantsFrom(ctx context.Context, p *pubsub.Participant, v *qosmutex.View) time.Time {
	ctx, cancel := context.WithTimeout(ctx, viewTakes)
	defer cancel()
	for published, err := range watchViews(ctx, p, v.Topic) {
		if err != nil {
			break
		}
		if published.Epoch == v.Epoch {
			if time.Until(published.GrantsFrom) > 0 {
				return published.GrantsFrom
			}
			break
		}
	}
	return time.Time{}
}

// resourcesText says which resources a lock has. Names that would not be seen as one are
// quoted.
func resourcesText(declared []string, open bool) string {
	shown := slices.Clone(declared)
	for i, name := range shown {
		if strings.ContainsAny(name, " ,\"'") {
			shown[i] = strconv.Quote(name)
		}
	}
	names := strings.Join(shown, ",")
	switch {
	case open && names != "":
		return names + " and any other name"
	case open:
		return "any name"
	case names == "":
		return "none"
	}
	return names
}

// atMost is a bound for people, in tenths of a second: never below d, and never 0s.
func atMost(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return max(d+tenth-1, tenth).Truncate(tenth)
}

func writeView(w io.Writer, v *qosmutex.View, asJSON bool) error {
	if asJSON {
		return writeJSON(w, []qosmutex.View{*v})
	}
	by := func(who string) string {
		if who == "" {
			return "by default"
		}
		return "declared by " + printable(who)
	}
	resources := resourcesText(v.Resources, v.Open)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "lock\t%s\n", printable(v.Topic))
	fmt.Fprintf(t, "models\t%s\t%s\n", printable(v.Models), by(v.ModelsBy))
	fmt.Fprintf(t, "resources\t%s\t%s\n", printable(resources), by(v.ResourcesBy))
	fmt.Fprintf(t, "ttl\t%v\n", time.Duration(v.TTL*float64(time.Second)).Round(time.Millisecond))
	fmt.Fprintf(t, "root\t%s\n", printable(v.Root))
	if left := time.Until(v.GrantsFrom); left > 0 {
		fmt.Fprintf(t, "granted\tfrom %s on, in %v at most: what was granted before may last until then\n", since(v.GrantsFrom), atMost(left))
	}
	return t.Flush()
}
