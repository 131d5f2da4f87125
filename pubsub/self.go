package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wait"
	"padme/pubsub/internal/wire"
)

const (
	// claimWait is how long another incarnation of this id may take to prove
	// that it lives.
	claimWait = time.Second
	// echoWait is how long the broker may take to deliver our own question to
	// us.
	echoWait = 5 * time.Second
)

// self is this participant's own presence. Before each birth it asks, over the
// inbox, whether another incarnation of the id lives; afterwards it keeps the
// retained presence its own.
//
// Who stays when two incarnations meet: one that is announced before one that
// joins; between two that join or two that are announced, the older one.
type self struct {
	p     *Participant
	topic string

	mu      sync.Mutex
	birth   *birth
	state   selfState
	echo    chan struct{} // has a token when our own question came back
	rival   chan uint64   // has the incarnation of a rival which must be yielded to
	asked   chan struct{} // has a token when a younger rival wants an answer
	born    chan struct{} // closed when the birth has come back, and all that the broker kept before it
	claimed uint64        // incarnation that the retained presence says is alive, 0 if none
	beaten  uint64        // younger rival which is told to yield, 0 if none

	owesBirth bool // the birth is to be published again once connected
}

type selfState int

const (
	absent    selfState = iota // no birth on this connection yet
	announced                  // owner of the id; the birth is published or about to be
	leaving                    // death was published
)

func (s *self) init(p *Participant) {
	s.p, s.topic = p, p.root+"/presence/"+p.level
	s.reset()
}

func (s *self) reset() {
	s.echo, s.rival, s.asked = make(chan struct{}, 1), make(chan uint64, 1), make(chan struct{}, 1)
	s.born = make(chan struct{})
	s.claimed, s.beaten, s.owesBirth = 0, 0, false
}

// begin starts a connection with a new epoch.
func (s *self) begin() *birth {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch := s.p.incarnation
	if s.birth != nil {
		epoch = max(s.birth.epoch+1, uint64(time.Now().UnixMicro()))
	}
	s.birth, s.state = newBirth(s.p, epoch), absent
	s.reset()
	return s.birth
}

// alone returns nil when no other incarnation of the id answers. Messages of one
// sender to one receiver stay in order, so once the question itself has come
// back, the retained presence has come too.
func (s *self) alone(ctx context.Context, k *connection.Link) error {
	s.tell(k, wire.KindWho)
	wait := echoWait
	if s.p.counters.connects.Load() > 0 { // it was delivered before
		wait = connection.ConnectTimeout
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	echoed := false
	for {
		select {
		case <-s.echo:
			if s.rivalClaims() == 0 || s.p.takeover {
				return s.settle()
			}
			echoed = true
			timeout.Reset(claimWait)
		case <-s.asked:
			s.tell(k, wire.KindHere)
		case rival := <-s.rival:
			return s.duplicate(rival)
		case <-timeout.C:
			if echoed {
				s.p.log.Info("taking the id over from an incarnation that does not answer", "incarnation", s.rivalClaims())
				return s.settle()
			}
			return fmt.Errorf("%w: participant %q does not receive what it writes to its inbox %s%s: allow this user to read and write it in the broker's access rules", ErrRefused, s.p.id, s.p.inbox.prefix, s.p.level)
		case <-k.Lost():
			return ErrOffline
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell writes to the own inbox.
func (s *self) tell(k *connection.Link, what wire.Kind) {
	k.Publish(&connection.Packet{Topic: s.p.inbox.prefix + s.p.level, Payload: s.signal(what), QoS: 1})
}

// settle makes this incarnation the owner of the id unless it has to yield.
// From then on rivals are met as by any other owner, although the birth is yet
// to be published: nothing that arrives in between may be lost.
func (s *self) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case rival := <-s.rival:
		return s.duplicate(rival)
	default:
		s.state = announced
		return nil
	}
}

func (s *self) rivalClaims() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed
}

func (s *self) duplicate(rival uint64) error {
	return fmt.Errorf("%w: participant %q is alive already (incarnation %d) in %s on %s: stop that process or choose another id", ErrDuplicateID, s.p.id, rival, s.p.root, s.p.label)
}

// signal encodes a message without content to the own inbox.
func (s *self) signal(k wire.Kind) []byte {
	return wire.Append(nil, &wire.Envelope{Kind: k, Epoch: s.p.incarnation})
}

// connected and lost follow the connection.
func (s *self) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.asked:
		s.answer()
	default:
	}
	if s.owesBirth {
		s.owesBirth = false
		s.rebirth()
	}
}

func (s *self) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == announced {
		s.state = absent
	}
}

// epoch is that of the present birth.
func (s *self) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.birth.epoch
}

// presence is the birth as retained, if there is one.
func (s *self) presence() (birth []byte, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.birth.packet.Payload, s.state == announced
}

// leave returns the death to publish, if there was a birth.
func (s *self) leave() (connection.Packet, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	born := s.state == announced && s.p.Connected()
	s.state = leaving
	if !born {
		return connection.Packet{}, false
	}
	return s.birth.encodeDeath(s.p, time.Now()), true
}

// answer tells whoever asked that this incarnation lives, at once or when the
// lane opens.
func (s *self) answer() {
	if s.p.main.Put(connection.Packet{Topic: s.p.inbox.prefix + s.p.level, Payload: s.signal(wire.KindHere), QoS: 1}) != nil {
		wait.Signal(s.asked)
	}
}

// rebirth publishes the birth again, at once or when the lane opens.
func (s *self) rebirth() {
	s.owesBirth = s.p.main.Put(s.birth.packet) != nil
}

// heard handles a signal in the own inbox.
func (s *self) heard(k wire.Kind, incarnation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	older := incarnation < s.p.incarnation
	switch {
	case s.state == leaving:
	case incarnation == s.p.incarnation:
		if k == wire.KindWho {
			wait.Signal(s.echo)
		}
	case k == wire.KindWho && s.state == announced:
		s.answer()
	case k == wire.KindWho && !older:
		s.beaten = incarnation
		wait.Signal(s.asked)
	case k == wire.KindHere && incarnation == s.beaten:
		// It answers our question, and has yet to read our answer to its own:
		// if both yielded, nobody would stay.
	case k == wire.KindHere && s.state == announced && !older:
		// It sees our birth and ends.
	case s.state == announced:
		s.p.end(s.duplicate(incarnation))
	default:
		select {
		case s.rival <- incarnation:
		default:
		}
	}
}

// isBirth recognises the echo of every birth cheaply.
func (s *self) isBirth(payload []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(payload, s.birth.packet.Payload) {
		return false
	}
	select {
	case <-s.born:
	default:
		close(s.born)
	}
	return true
}

// settled is closed when all has arrived that the broker kept for what the present
// connection has begun with: the birth is published after that, and delivered in order.
func (s *self) settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.born
}

// seen handles what stands on the own presence topic.
func (s *self) seen(payload []byte) {
	if len(payload) == 0 || s.isBirth(payload) {
		return
	}
	pr, err := parsePresence(s.p.id, payload)
	if err != nil {
		s.p.drop(drop.Malformed, s.topic, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := pr.Incarnation == s.p.incarnation
	switch {
	case s.state == absent && pr.Alive && !own:
		s.claimed = pr.Incarnation
	case s.state == absent:
		s.claimed = 0
	case s.state == leaving, pr.Alive && own:
	case pr.Alive && pr.Incarnation < s.p.incarnation:
		s.p.end(s.duplicate(pr.Incarnation))
	default: // dead, or a younger rival which will see this birth and end
		s.rebirth()
		if own && pr.Epoch == s.birth.epoch { // others have forgotten what it announced
			s.p.start(s.p.exchange.announceAll)
		}
	}
}
