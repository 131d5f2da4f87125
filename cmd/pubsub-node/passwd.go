package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"padme/broker"
)

func newPasswd(s *session) *cobra.Command {
	var role string
	var certified bool
	cmd := &cobra.Command{
		Use:   "passwd FILE NAME",
		Short: "Add a user to a users file, or change its password",
		Long: `passwd adds NAME to the users FILE of a broker, or changes its password. It asks
for the password without echo, or takes the first line of --password-file, or of
standard input when that is no terminal. A running broker reads the file when it starts.

Roles: a member (the default) takes part under its own name; an observer only
reads; a client locks without this program, by JSON, and a gateway answers it; an
admin may do everything.`,
		Example: `  pubsub-node broker passwd users robot-1
  echo "$SECRET" | pubsub-node broker passwd users panel --role observer
  pubsub-node broker passwd users robot-2 --no-password`,
		Args: argCount(2, 2, "FILE and NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case role == "member":
				role = ""
			case role != "" && !slices.Contains([]broker.Role{broker.Observer, broker.Client, broker.Gateway, broker.Admin}, broker.Role(role)):
				return usageError("--role %q: choose \"member\", \"observer\", \"client\", \"gateway\" or \"admin\"", role)
			}
			if certified && s.passwordFile != "" {
				return usageError("--no-password and --password-file contradict each other: give one of them")
			}
			return passwd(s, args[0], args[1], broker.Role(role), cmd.Flags().Changed("role"), certified)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "`role`: member, observer, client, gateway or admin (default: member, or as it was)")
	cmd.Flags().BoolVar(&certified, "no-password", false, "no password lets NAME in, only its certificate: see --use-identity-as-username")
	return cmd
}

func passwd(s *session, file, name string, role broker.Role, grant, certified bool) error {
	users, err := broker.LoadUsers(file)
	if errors.Is(err, os.ErrNotExist) {
		users, err = new(broker.Users), nil
	}
	if err != nil {
		return err
	}
	if name == nodeName() {
		return usageError("the name %q belongs to the broker's own lock node: choose another", name)
	}
	if err := addUser(s, users, name, certified); err != nil {
		return err
	}
	if grant {
		if err := users.Grant(name, role); err != nil {
			return err
		}
	}
	return users.Save(file)
}

func addUser(s *session, users *broker.Users, name string, certified bool) error {
	if certified {
		return users.AddCertified(name)
	}
	read := func() (string, error) { return readPassword(name) }
	if s.passwordFile != "" {
		read = s.password
	}
	password, err := read()
	if err != nil {
		return err
	}
	return users.Add(name, password)
}

// ask reads a line without echo. Ctrl-C ends the process, as elsewhere, but gives
// the terminal its echo back first.
func ask(fd int, prompt string) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	ctx, sigs := watchSignals(context.Background())
	defer sigs.stop()
	stop := context.AfterFunc(ctx, func() {
		var sig interrupted
		if errors.As(context.Cause(ctx), &sig) {
			_ = term.Restore(fd, before)
			os.Exit(exitSignal + int(sig.signal))
		}
	})
	defer stop()
	fmt.Fprint(os.Stderr, prompt)
	text, err := term.ReadPassword(fd)
	fmt.Fprintln(os.Stderr)
	return string(text), err
}

// readPassword asks twice on a terminal and reads one line from anything else.
func readPassword(name string) (string, error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		password, err := firstLine(os.Stdin)
		if err != nil {
			return "", fmt.Errorf("password on standard input: %w", err)
		}
		return password, nil
	}
	first, err := ask(fd, "password of "+printable(name)+": ")
	if err != nil {
		return "", err
	}
	second, err := ask(fd, "again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ: nothing was changed")
	}
	return first, nil
}
