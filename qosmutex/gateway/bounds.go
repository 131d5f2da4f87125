package gateway

import (
	"fmt"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// Limits bounds what clients can make a gateway spend. A zero field means its default. What
// exceeds a limit is refused or dropped, counted in qosmutex_gateway_limited_total, and
// logged with the name of the client, at most once a minute for each limit and client.
type Limits struct {
	// Requests is how many requests of all clients may wait or hold, and how many clients
	// are remembered; default 32768, at about 2 KB each.
	Requests int
	// ClientRequests is how many of them one client may have in all locks together; default
	// 2048, enough for eight locks, so it takes sixteen accounts to fill the gateway.
	ClientRequests int
	// ClientRequestsPerLock is how many of them one client may have in one lock; default
	// 256, as many as the Go client sends before it makes further ones wait.
	ClientRequestsPerLock int
	// ClientRate is how many messages a second of one client are read in one lock, and
	// twice as many at once; default 1000, the rate at which the Go client paces itself. A
	// quarter of the rate is guaranteed to each client over all locks; the rest comes from
	// three times the rate, which all clients share. As many messages of one client, or
	// ClientRequests if that is more, may wait to be read.
	ClientRate int
	// ClientNames is how many new undeclared resources a client may name a second, after
	// twice ClientRequestsPerLock at once; default 50, because each costs its root 5 KB.
	ClientNames int
	// Unread is how many bytes of messages may wait to be read; default 16 MiB, a few
	// seconds of work.
	Unread int
}

// DefaultLimits returns the limits that Serve uses without WithLimits.
func DefaultLimits() Limits {
	l, _ := Limits{}.withDefaults()
	return l
}

// WithLimits bounds what clients can make the gateway spend.
func WithLimits(l Limits) Option {
	return func(o *options) (err error) {
		o.limits, err = l.withDefaults()
		return err
	}
}

// LimitError says that a field of Limits has an invalid value. It wraps
// qosmutex.ErrInvalidConfig.
type LimitError struct {
	Field              string
	Value, Least, Most int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: Limits.%s is %d: choose %d to %d, or 0 for the default", qosmutex.ErrInvalidConfig, e.Field, e.Value, e.Least, e.Most)
}

// Unwrap returns qosmutex.ErrInvalidConfig.
func (e *LimitError) Unwrap() error { return qosmutex.ErrInvalidConfig }

// Check returns a *LimitError for the first field with an invalid value, or nil.
func (l Limits) Check() error {
	_, err := l.withDefaults()
	return err
}

func (l Limits) withDefaults() (Limits, error) {
	for _, f := range []struct {
		name                  string
		value                 *int
		standard, least, most int
	}{
		{"Requests", &l.Requests, 1 << 15, 1, 1 << 20},
		{"ClientRequests", &l.ClientRequests, 1 << 11, 1, 1 << 20},
		{"ClientRequestsPerLock", &l.ClientRequestsPerLock, jsonlock.MaxLive, 1, 1 << 16},
		{"ClientRate", &l.ClientRate, jsonlock.Rate, 10, 100_000}, // a quarter of less is nothing
		{"ClientNames", &l.ClientNames, 50, 1, 100_000},
		{"Unread", &l.Unread, 16 << 20, 64 << 10, 1 << 30},
	} {
		if *f.value == 0 {
			*f.value = f.standard
		}
		if *f.value < f.least || *f.value > f.most {
			return l, &LimitError{f.name, *f.value, f.least, f.most}
		}
	}
	return l, nil
}

// What follows from the limits.

// ownRequests is how many messages a second are read of each client in any case.
func (l *Limits) ownRequests() float64 { return float64(l.ClientRate) / 4 }

// ownReleases is the same of those that look like releases and renewals.
func (l *Limits) ownReleases() float64 { return float64(l.ClientRate) }

// pool is how many messages a second of each kind are read of all clients beyond that.
func (l *Limits) pool() float64 { return 3 * float64(l.ClientRate) }

// namesAtOnce is how many new resources a client may name at one moment: its requests in a lock
// may all be for others, twice.
func (l *Limits) namesAtOnce() float64 { return 2 * float64(l.ClientRequestsPerLock) }

// clients is how many are remembered: each of all requests may be another one's.
func (l *Limits) clients() int { return l.Requests }

// remembered is how many ended requests there are beyond which each client has few.
func (l *Limits) remembered() int { return 2 * l.Requests }
