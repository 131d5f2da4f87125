package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"padme/broker"
	"padme/cmd/internal/flags"
	"padme/cmd/internal/web"
)

// limitFlags are the flags of `pubsub-node broker` that bound what clients can make it
// spend. What goes beyond one is counted and logged under the flag's name.
type limitFlags struct {
	limits    broker.Limits
	numbers   map[string]*int
	durations map[string]*time.Duration
}

func (f *limitFlags) add(fs *pflag.FlagSet) {
	f.numbers, f.durations = map[string]*int{}, map[string]*time.Duration{}
	f.limits = broker.DefaultLimits()
	l := &f.limits
	number := func(p *int, name, usage string) {
		fs.IntVar(p, name, *p, usage)
		f.numbers[name] = p
	}
	duration := func(p *time.Duration, name, usage string) {
		flags.DurationVar(fs, p, name, "", *p, usage)
		f.durations[name] = p
	}
	number(&l.Clients, "max-clients", "connections at a time")
	number(&l.PacketSize, "max-packet", "size of an MQTT packet, in bytes")
	number(&l.Queue, "max-queue", "messages that wait for one session, or are on their way to it")
	number(&l.Unsent, "max-unsent", "messages that wait on the way to one connection")
	number(&l.Unwritten, "max-unwritten", "changes that wait while the disk takes nothing, in bytes")
	number(&l.Retained, "max-retained", "retained messages of one user, in bytes")
	number(&l.UserClients, "max-user-clients", "connections of one user")
	number(&l.UserRate, "max-user-rate", "packets a second of one user, while others send, too; 2 KiB count as one")
	number(&l.UserWildcards, "max-user-wildcards", "sessions of one user that may be subscribed to what all others publish")
	number(&l.UserSessions, "max-user-sessions", "sessions of one user that outlive their connections")
	number(&l.UserSubscriptions, "max-user-subscriptions", "subscriptions of one user")
	number(&l.UserQueue, "max-user-queue", "messages that wait for absent sessions of one user, in bytes")
	number(&l.Absent, "max-absent", "messages that wait for absent sessions of all users, in bytes")
	number(&l.ConnectSize, "max-connect-size", "size of a CONNECT, in bytes")
	number(&l.Unauthenticated, "max-unauthenticated", "connections that have not proven yet who they are; the oldest makes room")
	fs.IntVar(&l.UnauthenticatedPerAddress, "max-unauthenticated-per-address", 0, "the same for one address, but for those of this machine only if it is given (default 256)")
	fs.IntVar(&l.PasswordChecks, "max-password-checks", 0, "passwords that are checked at a time (default: half of the processors)")
	number(&l.Properties, "max-properties", "MQTT 5 properties of a packet")
	number(&l.Filters, "max-filters", "filters of a SUBSCRIBE or UNSUBSCRIBE")
	number(&l.SharedSubscriptions, "max-shared-subscriptions", "shared subscriptions of one user")
	number(&l.TopicLevels, "max-topic-levels", "levels of a topic or filter")
	duration(&l.PasswordWait, "max-password-wait", "how long a client waits for its password to be checked")
	duration(&l.ConnectTimeout, "connect-timeout", "how long a connection may take until its CONNECT is complete")
	duration(&l.WriteTimeout, "write-timeout", "how long a client may refuse to take what is sent to it")
	duration(&l.SessionExpiry, "session-expiry", "how long a session waits for its client to come back")
}

// check refuses what Limits would take for "the default".
func (f *limitFlags) check() error {
	var out *broker.LimitError
	if err := f.limits.Check(); errors.As(err, &out) {
		return usageError("--%s %s: choose %s, or leave it out", out.Flag, out.Value, out.Range)
	}
	for _, name := range slices.Sorted(maps.Keys(f.numbers)) {
		if n := *f.numbers[name]; n <= 0 {
			return usageError("--%s %d: choose at least 1, or leave it out", name, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.durations)) {
		if d := *f.durations[name]; d <= 0 {
			return usageError("--%s %v is not positive: leave it out for the default", name, d)
		}
	}
	return nil
}

// leastQueue is the least --max-queue with which the lock node hears what it is sent.
const leastQueue = 8

// checkQueue refuses a value with which the lock node of the broker hears nothing.
func (f *brokerFlags) checkQueue() error {
	if n := f.limit.limits.Queue; n < leastQueue && !f.noLocks {
		return usageError("--max-queue %d: choose at least %d, which the locks of the broker itself need, or give --no-locks", n, leastQueue)
	}
	return nil
}

// reachedByStrangers are limits that the lock node of the broker does not reach.
var reachedByStrangers = []string{"max-unauthenticated", "max-unauthenticated-per-address", "connect-timeout"}

// tooTight names the limits that were reached before the lock node of the broker was there: it is
// the first client, and others wait for it.
func (f *brokerFlags) tooTight(b *broker.Broker, err error) error {
	var reached []string
	for _, limit := range slices.Sorted(maps.Keys(b.Reached())) {
		if n := f.limit.numbers[limit]; n != nil && !slices.Contains(reachedByStrangers, limit) {
			reached = append(reached, fmt.Sprintf("--%s %d", limit, *n))
		}
	}
	if len(reached) == 0 {
		return err
	}
	return &exitError{exitFailure, fmt.Errorf("the broker's own locks are beyond %s: choose more, or give --no-locks: %w", strings.Join(reached, " and "), err)}
}

// retainedOfLock is what a lock with one resource counts in --max-retained, in bytes.
const retainedOfLock = 24 << 10

// checkRoom warns of two settings that disagree: watchers do not see the locks of which the
// broker retains nothing.
func (f *brokerFlags) checkRoom(log *slog.Logger) {
	if room := f.limit.limits.Retained / retainedOfLock; room < f.topicLimits.total {
		log.Warn("fewer locks than may be open can be seen by watchers", "max-retained has room for", room, "max-topics", f.topicLimits.total,
			"remedy", "raise --max-retained, or lower --max-topics")
	}
}

// checkOpen refuses to let a network in without asking who comes, unless that is said.
func (f *brokerFlags) checkOpen() error {
	if f.anonymous && f.usersFile != "" {
		return usageError("--anonymous lets anyone in, --users only those of its file: give one of them")
	}
	if f.anonymous || f.usersFile != "" {
		return nil
	}
	for _, l := range []struct{ flag, address string }{{"listen", f.listen}, {"ws", f.webSocket}} {
		if host, _, err := net.SplitHostPort(l.address); err == nil && !web.Loopback(host) {
			return usageError("--%s %s is open to the network, and nothing says who may come: "+
				"add users with \"pubsub-node broker passwd users NAME\" and give --users users, or give --anonymous to let anyone do anything", l.flag, l.address)
		}
	}
	return nil
}
