package pubsub

import (
	"errors"
	"strings"
	"testing"

	"padme/tests/brokers"
)

// Who may not take part is told so, and not that its password is wrong.
func TestARefusalSaysWhatIsRefused(t *testing.T) {
	url := startWithRoles(t)
	brokers.Stays(t.Name(), "its subject are the embedded broker's roles")
	for _, c := range []struct {
		id, user, password string
		letIn              bool
		says               string
	}{
		{"observer", "observer", "secret", true, `lets "observer" in, but not take part`},
		{"client", "client", "secret", true, `lets "client" in, but not take part`},
		{"another", "member", "secret", true, `join as "member" instead of "another"`},
		{"observer", "observer", "guess", false, `does not accept the credentials of user "observer"`},
		{"member", "", "", false, "does not accept anonymous participants"},
	} {
		opts := at(t)
		if c.user != "" {
			opts = append(opts, WithCredentials(c.user, c.password))
		}
		_, err := Join(testContext(t), url, c.id, opts...)
		var r *RefusedError
		if !errors.Is(err, ErrRefused) || !errors.As(err, &r) || r.LetIn != c.letIn || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	join(t, url, "observer", as("observer"), Unannounced()) // who only reads is let in
}
