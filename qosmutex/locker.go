package qosmutex

import (
	"context"

	"padme/qosmutex/protocol"
)

// A Locker takes the resources of a lock topic. It is the *Topic of a member ([Open]) or
// the *Client of a participant outside the tree ([Dial]). Code written against it works
// with either.
type Locker interface {
	Name() string
	Lock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error)
	TryLock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error)
	Ask(resource string, opts ...LockOption) (*Request, error)
	Do(ctx context.Context, resource string, f func(ctx context.Context, h *Hold) error, opts ...LockOption) error
	Warning(resource string) string
	Done() <-chan struct{}
	Err() error
	Close(ctx context.Context) error
}

var (
	_ Locker = (*Topic)(nil)
	_ Locker = (*Client)(nil)
)

// attachment is what a hold is a hold of: a Topic or a Client.
type attachment interface {
	Name() string
	now() protocol.Time
	wait(ctx context.Context, h *Hold, r *request) (*Hold, error)
	raise(h *Hold, priority int64) error
	unlock(h *Hold) error
}
