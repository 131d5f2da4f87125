package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/pubsub"
)

// session is what every verb needs to reach a broker: the values of the
// persistent flags.
type session struct {
	broker, id         string
	user, passwordFile string
	ca, cert, key      string
	domain, prefix     string
	timeout            time.Duration
	timeoutGiven       bool
	bound              string        // the flag that gave timeout; empty: --timeout
	absent             time.Duration // how long a broker that is not there is tried; 0 if nobody said, because most often the URL is wrong
	told               bool          // that nothing answers
	verbose            bool

	verb   string        // the command that is run, without the program's name
	joined time.Duration // how long connecting took
}

// defaultDomain is the domain where none is given.
const defaultDomain = "default"

// defaultPrefix is the first level of every topic where none is given.
const defaultPrefix = "padme"

// execute runs the command line and returns the exit code. Errors go to standard
// error as one line.
func execute(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(output{os.Stdout, errClosedOutput})
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) || exit.cause != nil {
		fmt.Fprintln(os.Stderr, message(err))
	}
	code := exitCode(err)
	if code == exitUsage {
		fmt.Fprintf(os.Stderr, "usage: %s\nsee %s --help\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}

func newRoot() *cobra.Command {
	s := &session{}
	root := &cobra.Command{
		Use:   "pubsub-node",
		Short: "Publish, subscribe and lock over MQTT",
		Long: `pubsub-node publishes, subscribes and takes distributed locks over an MQTT
broker, and is that broker if need be.

Where a flag has a name in brackets, the environment variable of that name gives
its default.`,
		Example: `  pubsub-node broker                       # in one terminal
  pubsub-node lock crane -- ./lift.sh      # in others: one at a time
  pubsub-node lock ls`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			s.verb = strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
			if s.timeoutGiven = cmd.Flags().Changed("timeout"); s.timeoutGiven {
				s.absent = s.timeout
			}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// A command that there is not has no flags either: "locks --json" lacks the command.
		if before := cmd.Flags().Args(); cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") && len(before) > 0 {
			return noArgs(cmd, before)
		}
		return usageError("%w", flags.Plain(err))
	})
	f := root.PersistentFlags()
	f.StringVar(&s.broker, "broker", env("PADME_BROKER", "mqtt://127.0.0.1:1883"), "`URL` of the MQTT broker: mqtt, mqtts, ws or wss [PADME_BROKER]")
	f.StringVar(&s.id, "id", "", "`name` of this participant, one process at a time (default: the user, else the name in --cert, else host-pid, in a container with a random end)")
	f.StringVar(&s.user, "user", env("PADME_USER", ""), "`name` to log in with [PADME_USER]")
	f.StringVar(&s.passwordFile, "password-file", "", "`file` whose first line is the password (default: the password is in PADME_PASSWORD)")
	f.StringVar(&s.ca, "cafile", "", "PEM `file` of the authority that signed the other side's certificate (default: the system's)")
	f.StringVar(&s.cert, "cert", "", "PEM `file` of the own certificate chain, with --key")
	f.StringVar(&s.key, "key", "", "PEM `file` of its private key, with --cert")
	f.StringVar(&s.domain, "domain", defaultDomain, "participants of different domains do not see each other")
	f.StringVar(&s.prefix, "prefix", defaultPrefix, "first level of every MQTT topic")
	flags.DurationVar(f, &s.timeout, "timeout", "", 10*time.Second, "how long connecting to the broker may take; given, also how long to wait for one that is not there yet")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "log to standard error")
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newBroker(s), newLock(s), newServe(s), newPub(s), newSub(s), newTopicCommand(s), newInstance(s), newQoS(s), newGraph(s), newShapes(s), newPerf(s), newDoctor(s), newVoters(s), newUI(s), newRecord(s), newTop(s), newNode(s), newSim(s), newPlan(s), newParticipate(), newACL(s), newVersion())
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error { // cobra's own shows the help of what it knows
			if cmd, rest, _ := root.Find(args); len(rest) > 0 {
				return noArgs(cmd, rest)
			}
			return nil
		}
	}
	root.Version = readVersion().Version
	root.SetVersionTemplate("pubsub-node {{.Version}}\n")
	return root
}

// listWord is other programs' for what is called ls here.
const listWord = "list"

// noArgs and its like return usage errors, which cobra's own do not.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		hint := ""
		if !cmd.HasParent() && (args[0] == "ls" || args[0] == listWord) {
			hint = `: did you mean "lock ls", "node ls" or "topic ls"?`
		} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf(": did you mean %q?", near[0])
		}
		return usageError("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
	}
	return usageError("unexpected argument %q", args[0])
}

// argCount accepts least to most arguments; what names those that must be there, as "NAME
// and CLIENT". None of those may be empty.
func argCount(least, most int, what string) cobra.PositionalArgs {
	names := strings.Split(what, " and ")
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError("missing %s", strings.Join(names[len(args):], " and "))
		case len(args) > most:
			return usageError("unexpected argument %q: quote what belongs together", args[most])
		}
		if empty := slices.Index(args[:least], ""); empty >= 0 {
			return usageError("%s is empty", names[empty])
		}
		return nil
	}
}

// checkTopicName refuses what no topic can be called, before a broker is looked for.
func checkTopicName(name string) error {
	if _, err := pubsub.EncodeLevel(name); err != nil {
		return usageError("topic name: %w", err)
	}
	return nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// logger writes from level on to standard error, everything with --verbose.
func (s *session) logger(level slog.Level) *slog.Logger {
	if s.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
