package qosmutex

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// MinTTL and MaxTTL bound the TTL that a participant may request from a server.
const (
	MinTTL = 500 * time.Millisecond
	MaxTTL = 10 * time.Minute
)

const (
	// maxServed is how many topics are open by default, and bounds what is remembered of others.
	maxServed = 1024
	// slowRoot is for how many TTLs a root may be silent that is not known to be dead.
	slowRoot = 4
	// openAgain is the pause after an Open that failed.
	openAgain = 500 * time.Millisecond
)

// Server keeps lock topics open on one participant. It opens each when it is first needed:
// by Topic or, while Run runs, by another participant that looks for a root. Since a
// participant can open each topic only once, code that serves clients and code that roots
// topics share topics this way.
//
// With WithRegister the server creates the topics that the register does not have. Without
// it, the server joins a topic that has a root. It creates one that has none, in a register
// in memory or in the file of [KeepIn], unless the presence of another participant says
// that it creates locks. It reopens a topic whose root has died. While Listen or Run runs,
// it need not look for the root of a topic of which it has heard nothing for long enough.
type Server struct {
	options
	p    *pubsub.Participant
	opts []Option

	registered prometheus.Registerer // of the metrics; nil: none

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup

	vanished atomic.Bool // a file in which topics are kept is not at its path any more

	mu         sync.Mutex
	topics     map[string]*servedTopic
	account    account
	others     map[string]bool          // another participant is or may be the root of it
	before     map[string]protocol.Time // it may go on from an earlier process, until then
	givenUp    map[string]bool          // topics that it has let go of, and that only servers have asked for since
	makingRoom bool
	lines      *alike                       // of its topics
	ttls       map[string]protocol.Duration // for which a participant asked that sought a root, if it did
	dead       map[string]bool              // participants that have ended
	serving    map[string]bool              // other participants that serve, and whether they have a register
	blind      bool                         // who else serves is not known
	since      time.Time                    // it hears what is said to all; zero: it does not
	// Of heard, which runs one at a time.
	decoder protocol.Decoder
	message protocol.Message
}

// servedTopic is one that a server has opened, or is about to.
type servedTopic struct {
	user    string            // who has named it; empty: nobody who is counted
	weight  int               // as what it counts
	ttl     protocol.Duration // if it is created; 0: that of the server
	topic   *Topic            // nil while it is not open
	opening *Topic            // that was opened last, perhaps without success yet
	failure error             // why it will not be opened
	changed chan struct{}     // closed and replaced when one of them is set
	leave   chan leaving      // asks to let go of it
	used    time.Time         // when it was last asked for
	sought  time.Time         // since when it has no root although others create; of keep
	asked   time.Time         // when a question for its root came back that nobody has answered since
	gone    bool              // the server has let go of it
}

// NewServer returns a server that has no topic open yet. opts apply to every topic. Their
// models, resources and timing are defaults, which the first declaration replaces. Without
// them a topic accepts any resource id until a participant declares its resources, and has
// the TTL that the participant requests, if any, for which it is created. Close the server
// before p. The error wraps ErrInvalidConfig, ErrInvalidName or, if p has ended, ErrClosed.
func NewServer(p *pubsub.Participant, opts ...Option) (*Server, error) {
	opts = slices.Concat([]Option{asDefault(WithOpenResources())}, opts, []Option{declareNothing})
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if o.session != "" {
		return nil, errLastWill
	}
	if o.limits, err = o.limits.withDefaults(); err != nil {
		return nil, err
	}
	if p.Err() != nil {
		return nil, fmt.Errorf("%w: participant %q has ended, join again: %w", ErrClosed, p.ID(), p.Err())
	}
	if o.own == nil {
		o.own = local.Memory()
	}
	s := &Server{options: o, p: p, opts: opts, lines: newAlike(o.log.With(slog.String("participant", p.ID()))), topics: map[string]*servedTopic{}, account: newAccount(o.log), others: map[string]bool{}, givenUp: map[string]bool{}, ttls: map[string]protocol.Duration{}, dead: map[string]bool{}, serving: map[string]bool{}}
	s.reached = newExcesses(o.log.With(slog.String("participant", p.ID())))
	s.before = s.keptBefore()
	if err := s.registerMetrics(); err != nil {
		return nil, err
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	if s.register == nil && s.own.Notes() {
		s.running.Go(s.giveSignsOfLife)
	}
	s.running.Go(s.followPresences)
	s.running.Go(s.giveUpIdle)
	s.running.Go(s.lookAfterFiles)
	s.running.Go(func() { s.lines.run(s.ctx) })
	return s, nil
}

// declareNothing has all that was given before be a default. Others use what this
// participant locks, and are told what it is told.
func declareNothing(o *options) error {
	o.givenModels, o.givenResources, o.givenTiming = false, false, false
	o.served = true
	return nil
}

// Participant returns the participant on which the topics are open.
func (s *Server) Participant() *pubsub.Participant {
	if s.made() != nil {
		return nil
	}
	return s.p
}

// Run opens every topic that another participant requests. If the register remembers topics
// with members of an earlier process, it opens those at once: their members need not
// request it. It blocks until ctx, the server or its participant ends, and returns nil
// after ctx, and otherwise an error that wraps ErrClosed. The topics stay open until Close.
func (s *Server) Run(ctx context.Context) error { return s.listen(ctx, true) }

// Listen listens for roots elsewhere, as Run does, but opens no topic at the request of
// others. It blocks and returns as Run does.
func (s *Server) Listen(ctx context.Context) error { return s.listen(ctx, false) }

func (s *Server) listen(ctx context.Context, opens bool) error {
	if err := s.made(); err != nil {
		return err
	}
	stop, err := s.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "+", "join", "+"}, func(m pubsub.RawMessage) { s.heard(m, opens) })
	if err != nil {
		return endOfWatch(ctx, err)
	}
	defer s.listens(time.Time{})
	defer stop()
	s.listens(time.Now())
	defer s.p.Notify(func(up bool) {
		if up {
			s.listens(time.Now())
		}
	})()
	if opens || s.register == nil {
		s.resume()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.ctx.Done():
		return s.closedError()
	case <-s.p.Done():
		return s.participantEnded()
	}
}

// Topic returns an open topic. It opens the topic if necessary, and waits until a root
// answers or ctx ends. Do not close the topic. If it has ended because its participant lost
// the root, Topic waits until it is open again.
//
// Errors wrap ErrTimeout or ErrCanceled (and context.Cause), ErrFull if as many topics are
// open as [TopicLimits] allows in all, where one with a short TTL counts several times,
// ErrInvalidName, ErrInvalidConfig, ErrConflict and ErrClosed.
func (s *Server) Topic(ctx context.Context, name string) (*Topic, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	e := s.serve(name, "", 0)
	s.unlock()
	if e == nil {
		return nil, s.refusal(name)
	}
	for {
		s.mu.Lock()
		if e.gone {
			if e = s.serve(name, "", 0); e == nil {
				s.unlock()
				return nil, s.refusal(name)
			}
		}
		t, failure, changed := e.topic, e.failure, e.changed
		s.mu.Unlock()
		switch {
		case failure != nil:
			return nil, failure
		case t != nil && t.Err() == nil:
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, interrupted(ctx, fmt.Sprintf("lock topic %q on %s", name, s.p.URL()))
		case <-s.ctx.Done():
			return nil, s.closedError()
		case <-s.p.Done():
			return nil, s.participantEnded()
		}
	}
}

// Close closes the topics and waits until they are closed.
func (s *Server) Close() {
	if s.made() != nil {
		return
	}
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
	s.unregister()
}

func (s *Server) closedError() error { return fmt.Errorf("%w: the server of lock topics", ErrClosed) }

func (s *Server) participantEnded() error {
	return fmt.Errorf("%w: participant %q has ended: %w", ErrClosed, s.p.ID(), s.p.Err())
}

func (s *Server) refusal(name string) error {
	if s.ctx.Err() != nil {
		return s.closedError()
	}
	return fmt.Errorf("%w: lock topic %q: as many are open as may be, %d: let go of others, or give the server a higher limit", ErrFull, name, s.limits.Total)
}

// serve returns the topic of that name, which it has opened if need be; nil: it cannot be.
// It counts as that user's, if one is given. If it is created now it has this TTL; 0: the
// server's. The caller holds mu, and gives it back by unlock.
func (s *Server) serve(name, user string, ttl protocol.Duration) *servedTopic {
	e := s.topics[name]
	if e != nil {
		e.used = time.Now()
		return e
	}
	if ttl == 0 {
		ttl = s.ttls[name]
	}
	weight := s.weightOf(time.Duration(ttl))
	s.makeRoom(user, weight)
	if s.ctx.Err() != nil {
		return nil
	}
	if limit, most := s.exceeded(user, weight); limit != noLimit {
		s.noteRefused(name, user, limit, most)
		return nil
	}
	delete(s.ttls, name)
	delete(s.givenUp, name)
	e = &servedTopic{user: user, weight: weight, ttl: ttl, changed: make(chan struct{}), leave: make(chan leaving), used: time.Now()}
	s.account.charge(user, weight)
	s.topics[name] = e
	s.running.Go(func() { s.keep(name, e) })
	return e
}

// resume opens the topics that had members when the last process with the register ended, or all
// that this server itself had open.
func (s *Server) resume() {
	p := s.kept()
	if p == nil {
		return
	}
	var refused []string // there is no room for them any more
	s.mu.Lock()
	for _, key := range p.Inhabited() {
		if name, ok := strings.CutPrefix(key, recordKey(s.p.Root(), "")); ok {
			s.serve(name, "", 0)
		}
	}
	for name := range s.before {
		if s.serve(name, "", 0) == nil {
			refused = append(refused, name)
		}
	}
	s.unlock()
	for _, name := range refused {
		s.forgetNotes(name)
	}
}

// Resumes returns the lock topics in which an earlier process had holds under WithNote when
// it ended, if the server was created with Resume. The holds continue, except those that
// are missing from Topic.Resumed. Call Resumes before one of these topics is opened.
func (s *Server) Resumes() (names []string) {
	if s.made() != nil {
		return nil
	}
	p := s.kept()
	if p == nil || !s.resumes {
		return nil
	}
	for _, key := range p.Inhabited() {
		name, ok := strings.CutPrefix(key, recordKey(s.p.Root(), ""))
		if ok && len(p.Held(key)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// heard looks for roots elsewhere, and, if opens, for participants that seek one.
func (s *Server) heard(m pubsub.RawMessage, opens bool) {
	if m.Retained || len(m.Levels) != 4 {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	name := m.Levels[1]
	e := s.topics[name]
	if m.Levels[3] == s.p.ID() {
		if e != nil && e.asked.IsZero() {
			e.asked = time.Now()
		}
		return
	}
	if err := s.decoder.Decode(m.Payload, &s.message); err != nil || s.message.From.ID != m.Levels[3] {
		return
	}
	ttl := s.message.TTL
	if ttl < protocol.Duration(MinTTL) || ttl > protocol.Duration(MaxTTL) {
		ttl = 0
	}
	offers := s.message.Kind == protocol.KindOffer
	if e != nil && offers {
		e.asked = time.Time{}
	}
	switch {
	case offers && len(s.others) < maxServed: // also of an open topic, which may have to be created when that root has died
		s.others[name] = true
	case s.message.Kind != protocol.KindJoin, e != nil:
	case !opens && ttl > 0 && len(s.ttls) < maxServed: // the topic may be opened because somebody else asks
		s.ttls[name] = ttl
	case opens && s.givenUp[name] && s.serving[m.Levels[3]]: // it stands by, and looks for the next root
	case opens:
		s.serve(name, m.Levels[3], ttl)
	}
}

// listens notes since when all that is said to everybody is heard.
func (s *Server) listens(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = since
}

// alone reports whether a topic has no root but this participant: a root tells everybody
// that it is there when it begins, when it has a connection again, and each TTL, and none
// was heard of this topic. So there is no need to listen again before it is created, unless
// another server may be about to create it in another register.
func (s *Server) alone(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.register == nil && (s.blind || len(s.serving) > 0) {
		return false
	}
	return !s.since.IsZero() && time.Since(s.since) >= time.Duration(s.timing.TTL) && !s.others[name] && len(s.others) < maxServed
}

// listened says that whoever opens the topic has listened for a root of another register.
func listened(o *options) error {
	o.listened = true
	return nil
}
