package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"padme/pubsub"
)

// roleTakes bounds the question for a user's role, which not every broker answers.
const roleTakes = time.Second

// refusal is an error of the broker in the words of the command line.
type refusal struct {
	text  string
	cause *pubsub.RefusedError
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.cause }

// refused says in the words of the command line why the broker refused a connection. Any
// other error, and none, it returns as it is.
// needs are the roles that would do.
func (s *session) refused(ctx context.Context, err error, needs string) error {
	var r *pubsub.RefusedError
	switch {
	case !errors.As(err, &r):
		return err
	case r.LetIn && (r.User == "" || r.User == r.ID):
		return &refusal{s.unauthorized(ctx, r, needs), r}
	case r.LetIn:
		return &refusal{fmt.Sprintf("not authorized: user %s takes part under its own name only, not as %s: leave --id out", r.User, r.ID), r}
	case r.User != "" && s.cert != "":
		return &refusal{fmt.Sprintf("refused by the broker: %s does not accept user %q with this password and a certificate of %q: leave --user out if the certificate says who you are, or correct the password", r.URL, r.User, s.certificateName()), r}
	case r.User != "" && s.withoutPassword():
		return &refusal{fmt.Sprintf("refused by the broker: %s does not accept user %q without a password: give it in PADME_PASSWORD or --password-file", r.URL, r.User), r}
	case r.User != "":
		return &refusal{fmt.Sprintf("refused by the broker: %s does not accept user %q with this password: correct it in PADME_PASSWORD or --password-file, or add the user at the broker", r.URL, r.User), r}
	case s.cert != "":
		return &refusal{fmt.Sprintf("refused by the broker: %s does not know the user of --cert, %q: add it at the broker, or give --user and its password in PADME_PASSWORD", r.URL, s.certificateName()), r}
	}
	return &refusal{fmt.Sprintf("refused by the broker: %s lets nobody in without a name: give --user, and the password in PADME_PASSWORD or --password-file, or --cert and --key", r.URL), r}
}

// unauthorized is for a user who is let in and may not take part.
func (s *session) unauthorized(ctx context.Context, r *pubsub.RefusedError, needs string) string {
	role := s.role(ctx)
	if role != "" && !strings.Contains(needs, role) {
		return fmt.Sprintf("not authorized: user %s has role %s, %s needs %s", r.ID, role, s.verb, needs)
	}
	return fmt.Sprintf("not authorized: user %s may not take part, and %s needs that: give it more in the broker's access rules (see \"pubsub-node acl\"), or, if the broker's log says that it keeps too much, clear retained messages or raise --max-retained", r.ID, s.verb)
}

// named reports whether the broker knows a user behind this session.
func (s *session) named() bool { return s.user != "" || s.cert != "" }

// role asks the broker for the user's role; "" if it does not say. Only the embedded
// broker does.
func (s *session) role(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, roleTakes)
	defer cancel()
	prefix, err := pubsub.EncodeLevel(s.prefix)
	if err != nil {
		return ""
	}
	domain, err := pubsub.EncodeLevel(s.domain)
	if err != nil {
		return ""
	}
	c, err := connect(ctx, s, pubsub.ConnectPlain)
	if err != nil {
		return ""
	}
	defer closePlain(c)
	told := make(chan string, 1)
	stop, err := c.Subscribe(ctx, prefix+"/v1/"+domain+"/role", func(m pubsub.PlainMessage) {
		select {
		case told <- string(m.Payload):
		default:
		}
	})
	if err != nil {
		return ""
	}
	defer stop()
	select {
	case role := <-told:
		return role
	case <-ctx.Done():
		return ""
	}
}

// closePlain does not wait for long: what matters was flushed.
func closePlain(c *pubsub.Plain) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	_ = c.Close(ctx)
}
