package broker

import "errors"

var (
	// ErrInvalidConfig says that a field of Config has an invalid value; the text names it.
	ErrInvalidConfig = errors.New("broker: invalid config")
	// ErrListen says that the broker cannot listen on an address, most often because
	// another process does.
	ErrListen = errors.New("broker: cannot listen")
	// ErrStore says that the data directory cannot be read, written or locked.
	ErrStore = errors.New("broker: data directory")
	// ErrUsersFile says that a users file cannot be read, parsed or written.
	ErrUsersFile = errors.New("broker: users file")
	// ErrInvalidUser says that no user can have this name, password or role.
	ErrInvalidUser = errors.New("broker: invalid user")
	// ErrClosed says that the broker was closed.
	ErrClosed = errors.New("broker: closed")
	// ErrTooManyClients says that Limits.Clients clients are connected already.
	ErrTooManyClients = errors.New("broker: too many clients: raise Limits.Clients")
)
