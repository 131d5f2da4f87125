package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/cmd/internal/web"
	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/journal"
	"padme/qosmutex/register/local"
	"padme/qosmutex/register/quorum"
)

// keeping is where a gateway keeps who is the root of each lock, and how.
type keeping struct {
	options  []qosmutex.Option
	ended    <-chan struct{} // it keeps nothing any more, as err says
	err      func() error
	close    func() error
	own      *local.Register // what the next process goes on with, and who is the root unless it is a voter
	where    string          // own is
	why      string          // it is in memory though nobody asked for that
	joining  []pubsub.Option // of the participant that has own
	enrolled []string        // the voters
}

// keepOwn opens the register of a gateway that is no voter. A gateway without a name gets one
// that is the register's, so that it takes its own presence over, even that of before a power
// failure.
func (f *serveFlags) keepOwn(ctx context.Context, s *session) (*keeping, error) {
	r, where, why, err := f.ownRegister(ctx, s)
	if err != nil {
		return nil, err
	}
	k := &keeping{ended: r.Done(), close: r.Close, own: r, where: where, why: why}
	k.options = []qosmutex.Option{qosmutex.KeepIn(r), qosmutex.Resume()}
	k.err = func() error { return keptNoMore(r, where, "gateway") }
	if domain := r.Domain(); where != inMemory && s.participantID() == ownID() {
		s.id, k.joining = fmt.Sprintf("gateway-%x", domain[:4]), []pubsub.Option{pubsub.WithTakeover()}
	}
	return k, nil
}

// goesOn reports whether the next process goes on with what this one leaves.
func (k *keeping) goesOn() bool { return k.own != nil && k.own.Notes() }

// stateName is what the directory of a gateway's state is called: as the broker and the domain, and
// as itself if it has a name.
func stateName(s *session) string {
	name := "serve_" + s.broker
	if u, err := url.Parse(s.broker); err == nil && u.Hostname() != "" {
		host := u.Hostname()
		if web.Loopback(host) {
			host = "127.0.0.1"
		}
		name = "serve_" + net.JoinHostPort(host, cmp.Or(u.Port(), "1883"))
	}
	if s.domain != defaultDomain || s.prefix != defaultPrefix {
		name += "_" + s.domain
	}
	if s.prefix != defaultPrefix {
		name += "_" + s.prefix
	}
	if id := s.participantID(); id != ownID() {
		name += "_" + id
	}
	return name
}

// ownRegister opens the register of a gateway. If nobody said where it is to be and it cannot be
// there, or belongs to another gateway that runs, nothing is kept; why says so.
func (f *serveFlags) ownRegister(ctx context.Context, s *session) (r *local.Register, where, why string, err error) {
	if f.memory {
		return local.Memory(), inMemory, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	for r, where, err = ownRegister(f.dataDir, stateName(s)); errors.Is(err, journal.ErrInUse) && ctx.Err() == nil; {
		wait.Sleep(ctx, endsWithin/40)
		r, where, err = ownRegister(f.dataDir, stateName(s))
	}
	switch {
	case err == nil || f.dataDir != "":
		return r, where, "", err
	case errors.Is(err, journal.ErrInUse):
		return local.Memory(), inMemory, "another gateway at this broker keeps its own there: give each an --id, or a --data directory, of its own", nil
	}
	return local.Memory(), inMemory, err.Error(), nil // nobody asked for that file
}

// endsWithin is for how long the gateway before this one may take to end.
const endsWithin = 2 * time.Second

// What the files of a voter are called in its directory.
const (
	voterFile = "voter"
	holdsFile = "holds" // of its clients, for its next process
)

// keepAsVoter makes this participant a voter.
func (f *serveFlags) keepAsVoter(p *pubsub.Participant, timing qosmutex.Timing, log *slog.Logger, metrics prometheus.Registerer) (*keeping, error) {
	if err := os.MkdirAll(f.dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w: give a directory that this user may write to", err)
	}
	voter, err := inboxes.Start(p, f.voterOptions(timing, log))
	if err != nil {
		return nil, fmt.Errorf("voter %s: %w%s", p.ID(), err, remedyOfVoter(err, p.ID()))
	}
	own, err := local.Open(filepath.Join(f.dataDir, holdsFile)) // no other process does, as it has the voter's file
	if err != nil {
		// The vote counts for more.
		log.Warn("a restart will cost clients their holds", "error", err, "remedy", remedyOfHolds(err))
		own = local.Memory()
	}
	metrics.MustRegister(voter)
	k := &keeping{ended: voter.Done(), own: own, where: f.dataDir, enrolled: f.voters}
	k.options = []qosmutex.Option{qosmutex.WithRegister(voter), qosmutex.KeepIn(own), qosmutex.Resume()}
	k.close = func() error { voter.Close(); return own.Close() }
	k.err = func() error {
		return fmt.Errorf("the voter cannot keep its file, so it has ended: see to the disk of %s, then start it again: %w", f.dataDir, voter.Err())
	}
	if c := voter.Status().Config; c != nil {
		k.enrolled = c.IDs()
	}
	return k, nil
}

func (f *serveFlags) voterOptions(timing qosmutex.Timing, log *slog.Logger) quorum.Options {
	return quorum.Options{
		Voters: f.voters, File: filepath.Join(f.dataDir, voterFile), Logger: log,
		Lease: timing.TTL / 2, Drift: timing.Drift, Rate: f.voter.rate, Names: f.voter.names,
	}
}

// remedyOfVoter adds what to do about a file that a voter cannot use.
func remedyOfVoter(err error, id string) string {
	switch {
	case errors.Is(err, journal.ErrInUse):
		return ": is this voter running already? Each needs a --data directory of its own"
	case errors.Is(err, caspaxos.ErrForeign):
		return ": each needs a --data directory of its own"
	case errors.Is(err, journal.ErrForeign):
		return ": is it of another program, or of a later release? Give the --data directory of this voter, or start that release"
	case spoiled(err):
		return fmt.Sprintf(": as long as a majority of the others runs, move it away, start this voter again, and have it enroll as a new one with \"pubsub-node voters replace %s %s\"", id, id)
	case unwritable(err):
		return ": give a --data directory that has room and that this user may write to"
	}
	return ""
}

// spoiled reports whether a file cannot be used any more, and must make room for a new one.
func spoiled(err error) bool {
	return errors.Is(err, journal.ErrCopied) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, syscall.EISDIR)
}

// unwritable reports whether a file is as it was, and the system takes nothing.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}

// remedyOfHolds is what to do about the file of what clients hold.
func remedyOfHolds(err error) string {
	if unwritable(err) {
		return "see that the directory has room and that this user may write to it, then start this voter again"
	}
	return "move the file away, which only has what clients hold through this gateway, and start this voter again"
}

// serveUntil has serve go on until ctx ends or nothing is kept any more.
func (k *keeping) serveUntil(ctx context.Context, server *qosmutex.Server, serve func(context.Context) error) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	result := make(chan error, 1)
	go func() { result <- serve(serving) }()
	select {
	case err := <-result: // also where it could not begin
		k.leave(server)
		return err
	case <-k.ended:
		stop()
		return errors.Join(k.err(), <-result)
	case <-ctx.Done():
	}
	if !k.leave(server) {
		stop()
		if err := <-result; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	if err := <-result; !errors.Is(err, qosmutex.ErrClosed) { // the participant has ended
		return err
	}
	return nil
}

// leave ends the participant of a gateway as in a crash, if the next process goes on with what this
// one leaves.
func (k *keeping) leave(server *qosmutex.Server) bool {
	if !server.LeavesHolds() {
		return false
	}
	leave(server.Participant())
	return true
}
