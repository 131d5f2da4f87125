package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"padme/internal/wait"
	"padme/pubsub"
)

const (
	// levelOff is above every level: a verb prints its errors itself.
	levelOff = slog.Level(100)
	// parting bounds a polite goodbye: nobody waits longer for a broker which
	// has gone.
	parting = 2 * time.Second
	// absentPause is the time between two attempts to reach a broker that is not there.
	absentPause = 250 * time.Millisecond
	// maxSecret bounds the files that passwords are read from.
	maxSecret = 4096
)

// joinTimeout is the cause of a context that ended because the broker did not answer in time.
type joinTimeout struct {
	flag string // that gave the time
	time time.Duration
}

func (e *joinTimeout) Error() string { return fmt.Sprintf("no answer within %s of %v", e.flag, e.time) }

// joinTimeout is the cause of a context that ends after --timeout, or what stands for it.
func (s *session) joinTimeout() error { return &joinTimeout{cmp.Or(s.bound, "--timeout"), s.timeout} }

// join takes part in the domain, within --timeout. The caller must leave.
func (s *session) join(ctx context.Context) (*pubsub.Participant, error) {
	return s.joinAs(ctx, "member")
}

// joinAs joins with more options, which take a role at a broker with users. The caller
// must leave.
func (s *session) joinAs(ctx context.Context, role string, more ...pubsub.Option) (*pubsub.Participant, error) {
	p, err := connect(ctx, s, func(ctx context.Context, url, id string, opts ...pubsub.Option) (*pubsub.Participant, error) {
		return pubsub.Join(ctx, url, id, append(opts, more...)...)
	})
	return p, s.refused(ctx, err, role)
}

// joinToRead connects without taking part: nobody sees it, its id need not be free, and
// a user that may write nothing can. The caller must leave.
func (s *session) joinToRead(ctx context.Context) (*pubsub.Participant, error) {
	return s.joinAs(ctx, "observer", pubsub.Unannounced())
}

// whileJoined runs the work of a command with a participant, which leaves afterwards, and a
// context that a signal ends.
func (s *session) whileJoined(ctx context.Context, join func(context.Context) (*pubsub.Participant, error), run func(context.Context, *pubsub.Participant) error) error {
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	return run(ctx, p)
}

// connectPlain connects for topics of other programs. The caller must close it.
func (s *session) connectPlain(ctx context.Context) (*pubsub.Plain, error) {
	c, err := connect(ctx, s, pubsub.ConnectPlain)
	return c, s.refused(ctx, err, "")
}

// connect opens a connection of some kind within --timeout.
func connect[T any](ctx context.Context, s *session, open func(ctx context.Context, url, id string, opts ...pubsub.Option) (T, error)) (none T, err error) {
	for _, f := range []struct{ flag, name string }{{"domain", s.domain}, {"prefix", s.prefix}} {
		if f.name == "" {
			return none, usageError("--%s is empty: give a name, or leave it out", f.flag)
		}
	}
	if s.timeout <= 0 {
		return none, usageError("--timeout %v is not positive", s.timeout)
	}
	if strings.Contains(s.broker, "@") {
		return none, usageError("--broker contains credentials: give them by --user and --password-file or PADME_PASSWORD")
	}
	opts, err := s.options()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, s.joinTimeout())
	defer cancel()
	begun := time.Now()
	opened, err := open(ctx, s.broker, s.participantID(), opts...)
	for s.triesAgain(ctx, err, begun) {
		opened, err = open(ctx, s.broker, s.participantID(), opts...)
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
		s.joined = time.Since(begun)
		return opened, nil
	case errors.As(cause, new(interrupted)):
		return none, cause
	case isDialError(err): // nothing is there
		return none, fmt.Errorf("%w: start one with \"pubsub-node broker\" or give its URL by --broker", err)
	case errors.As(cause, new(*joinTimeout)) && !errors.Is(err, cause):
		return none, fmt.Errorf("%w: %w: %w", pubsub.ErrUnreachable, cause, err)
	}
	return none, err
}

// triesAgain reports whether an attempt to connect that failed with err is worth another one.
// It waits before that if nothing is there, for as long as was asked for.
func (s *session) triesAgain(ctx context.Context, err error, begun time.Time) bool {
	left := s.absent - time.Since(begun)
	switch {
	case ctx.Err() != nil:
		return false
	case isBusyError(err):
		s.tell("the broker at %s accepted the connection and has not answered yet: trying again", s.broker)
		return true
	case !isDialError(err) || errors.As(err, new(*net.AddrError)) || left <= absentPause:
		return false
	}
	if !s.told { // also to a log: a wrong URL would be found late
		s.told = true
		fmt.Fprintf(os.Stderr, "pubsub-node: nothing answers at %s yet: trying for %v\n", printable(s.broker), s.absent)
	}
	return wait.Sleep(ctx, absentPause)
}

// tell is for a person at a terminal, or with --verbose.
func (s *session) tell(format string, args ...any) {
	if s.verbose || term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintln(os.Stderr, "pubsub-node: "+printable(fmt.Sprintf(format, args...)))
	}
}

// isBusyError reports whether something accepted the connection and did not answer for as
// long as an attempt takes, as a broker of a busy machine.
func isBusyError(err error) bool {
	var late net.Error // context.DeadlineExceeded is one, too
	return errors.Is(err, pubsub.ErrUnreachable) && !isDialError(err) && errors.As(err, &late) && late.Timeout()
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// leave ends the participant. Nothing is lost if the broker does not answer any
// more: it announces the death itself.
func leave(p *pubsub.Participant) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	_ = p.Close(ctx)
}

// participantID: brokers which enforce who may write what expect the user's name. It is
// the same however often it is asked for.
func (s *session) participantID() string {
	if s.id != "" {
		return s.id
	}
	if s.user != "" {
		return s.user
	}
	if name := s.certificateName(); name != "" {
		return name
	}
	return ownID()
}

// hostName is the machine's name as far as the first dot, readable in a topic.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "host"
	}
	host, _, _ = strings.Cut(host, ".")
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, host[:min(len(host), 64)])
}

func (s *session) options() ([]pubsub.Option, error) {
	opts := []pubsub.Option{
		pubsub.WithDomain(s.domain),
		pubsub.WithPrefix(s.prefix),
		pubsub.WithLogger(s.logger(levelOff)),
	}
	if s.user != "" {
		password, err := s.password()
		if err != nil {
			return nil, err
		}
		opts = append(opts, pubsub.WithCredentials(s.user, password))
	} else if s.passwordFile != "" {
		return nil, usageError("--password-file without --user")
	}
	config, err := s.clientTLS()
	if config != nil {
		opts = append(opts, pubsub.WithTLS(config))
	}
	return opts, err
}

func (s *session) password() (string, error) {
	if s.passwordFile == "" {
		return os.Getenv("PADME_PASSWORD"), nil
	}
	f, err := os.Open(s.passwordFile)
	if err != nil {
		return "", fmt.Errorf("--password-file: %w: give a file that this user may read and whose first line is the password", err)
	}
	defer f.Close()
	password, err := firstLine(f)
	if err != nil {
		return "", fmt.Errorf("--password-file %s: %w: give a file whose first line is the password", s.passwordFile, err)
	}
	return password, nil
}

// withoutPassword reports whether none was given.
func (s *session) withoutPassword() bool {
	return s.passwordFile == "" && os.Getenv("PADME_PASSWORD") == ""
}

// firstLine reads up to the first line break, which is not part of the result.
func firstLine(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSecret))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", errors.New("the first line is empty")
	}
	return line, nil
}
