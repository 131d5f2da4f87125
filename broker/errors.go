package broker

import "errors"

var (
	// ErrInvalidConfig says: a field of Config does not make sense; the text names it.
	ErrInvalidConfig = errors.New("broker: invalid config")
	// ErrListen says: an address cannot be listened on, most often because another
	// process does.
	ErrListen = errors.New("broker: cannot listen")
	// ErrStore says: the data directory cannot be read, written or locked.
	ErrStore = errors.New("broker: data directory")
	// ErrUsersFile says: a users file cannot be read, parsed or written.
	ErrUsersFile = errors.New("broker: users file")
	// ErrInvalidUser says: a name, password or role that no user can have.
	ErrInvalidUser = errors.New("broker: invalid user")
	// ErrClosed says: the broker was closed.
	ErrClosed = errors.New("broker: closed")
	// ErrTooManyClients says: Limits.Clients connections exist already.
	ErrTooManyClients = errors.New("broker: too many clients: raise Limits.Clients")
)
