package pubsub

import (
	"context"
	"errors"
	"fmt"

	"padme/pubsub/internal/connection"
)

// A RefusedError describes a connection that a broker refused. It wraps ErrRefused.
type RefusedError struct {
	URL  string
	User string // that was given; "" for none
	ID   string // of the participant
	// LetIn is true if the credentials are valid but this ID may not join: the broker lets
	// the user announce nothing, or nothing under this id.
	LetIn bool

	unauthorized bool // the broker said so, and not that the password is wrong
}

func (e *RefusedError) Error() string {
	var why string
	switch {
	case !e.LetIn && e.User == "":
		why = "does not accept anonymous participants: give WithCredentials, or a client certificate of a user that it knows"
	case !e.LetIn:
		why = fmt.Sprintf("does not accept the credentials of user %q: correct the password, or add the user at the broker", e.User)
	case e.User != "" && e.User != e.ID:
		why = fmt.Sprintf("does not let user %q take part under another name: join as %q instead of %q, or give the credentials of that", e.User, e.User, e.ID)
	default:
		why = fmt.Sprintf("lets %q in, but not take part: give that user another role at the broker, clear what is retained if that is as much as the broker allows (its log says so), or join Unannounced to read only", e.ID)
	}
	return fmt.Sprintf("%v: %s %s", ErrRefused, e.URL, why)
}

// Unwrap makes errors.Is(err, ErrRefused) hold.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// whyRefused finds out what a connection with a last will was refused for. Brokers (the
// embedded one and mosquitto, for two) answer "not authorized" to wrong credentials and to
// a will that their user may not leave alike, so it tries without one.
func (p *Participant) whyRefused(ctx context.Context, err error) error {
	var r *RefusedError
	if !errors.As(err, &r) || !r.unauthorized {
		return err
	}
	k, again := p.connectLane(ctx, "~w", connection.Packet{}, func(string, []byte, bool) {})
	if again != nil {
		return err
	}
	k.Close(connection.Politeness)
	return &RefusedError{URL: r.URL, User: r.User, ID: p.id, LetIn: true}
}
