package discovery

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

const (
	// ClaimWait is how long another incarnation of this id may take to prove
	// that it lives.
	ClaimWait = time.Second
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
	birth   *Birth
	state   selfState
	echo    chan struct{} // has a token when our own question came back
	rival   chan uint64   // has the incarnation of a rival which must be yielded to
	asked   chan struct{} // has a token when a younger rival wants an answer
	born    chan struct{} // closed when the birth has come back, and all that the broker kept before it
	claimed uint64        // incarnation that the retained presence says is alive, 0 if none
	beaten  uint64        // younger rival which is told to yield, 0 if none

	owesBirth bool // the birth is to be published again once connected
	delivered bool // the broker has delivered our own question before
}

type selfState int

const (
	absent    selfState = iota // no birth on this connection yet
	announced                  // owner of the id; the birth is published or about to be
	leaving                    // death was published
)

func (s *self) reset() {
	s.echo, s.rival, s.asked = make(chan struct{}, 1), make(chan uint64, 1), make(chan struct{}, 1)
	s.born = make(chan struct{})
	s.claimed, s.beaten, s.owesBirth = 0, 0, false
}

// epoch is that of the present birth.
func (s *self) epoch() uint64 { return s.birth.epoch }

// begin starts a connection with a new epoch.
func (d *Directory) begin() *Birth {
	s := &d.self
	epoch := d.Incarnation
	if s.birth != nil {
		epoch = max(s.birth.epoch+1, uint64(time.Now().UnixMicro()))
	}
	s.birth, s.state = d.newBirth(epoch), absent
	s.reset()
	return s.birth
}

// Alone returns nil when no other incarnation of the id answers. Messages of one
// sender to one receiver stay in order, so once the question itself has come
// back, the retained presence has come too.
func (d *Directory) Alone(ctx context.Context, k *connection.Link) error {
	s := &d.self
	k.Publish(d.signal(wire.KindWho))
	patience := echoWait
	if s.delivered {
		patience = connection.ConnectTimeout
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	echoed := false
	for {
		select {
		case <-s.echo:
			if d.rivalClaims() == 0 || d.Takeover {
				return d.own()
			}
			echoed = true
			timeout.Reset(ClaimWait)
		case <-s.asked:
			k.Publish(d.signal(wire.KindHere))
		case rival := <-s.rival:
			return d.duplicate(rival)
		case <-timeout.C:
			if echoed {
				d.Log.Info("taking the id over from an incarnation that does not answer", "incarnation", d.rivalClaims())
				return d.own()
			}
			return fmt.Errorf("%w: participant %q does not receive what it writes to its inbox %s: allow this user to read and write it in the broker's access rules", failure.ErrRefused, d.ID, d.inbox())
		case <-k.Lost():
			return failure.ErrOffline
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// inbox is where this participant writes to itself.
func (d *Directory) inbox() string { return d.Root + "/node/" + d.Level + "/" + d.Level }

// signal is a message without content to the own inbox.
func (d *Directory) signal(k wire.Kind) *connection.Packet {
	return &connection.Packet{Topic: d.inbox(), Payload: wire.Append(nil, &wire.Envelope{Kind: k, Epoch: d.Incarnation}), QoS: 1}
}

// own makes this incarnation the owner of the id unless it has to yield.
// From then on rivals are met as by any other owner, although the birth is yet
// to be published: nothing that arrives in between may be lost.
func (d *Directory) own() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.self.delivered = true
	select {
	case rival := <-d.self.rival:
		return d.duplicate(rival)
	default:
		d.self.state = announced
		return nil
	}
}

func (d *Directory) rivalClaims() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self.claimed
}

func (d *Directory) duplicate(rival uint64) error {
	return fmt.Errorf("%w: participant %q is alive already (incarnation %d) in %s on %s: stop that process or choose another id", failure.ErrDuplicateID, d.ID, rival, d.Root, d.URL)
}

// connected and lost follow the connection.
func (d *Directory) connected() {
	s := &d.self
	select {
	case <-s.asked:
		d.answerRival()
	default:
	}
	if s.owesBirth {
		s.owesBirth = false
		d.rebirth()
	}
}

func (d *Directory) lost() {
	if d.self.state == announced {
		d.self.state = absent
	}
}

// birth is the birth as retained, if there is one.
func (d *Directory) birth() (payload []byte, alive bool) {
	if d.self.state != announced {
		return nil, false
	}
	return d.self.birth.Packet.Payload, true
}

// Leave returns the death to publish, if there was a birth. ended are the last samples of
// reliable writers that have readers which are away, by name, at most MaxEnded: from the death
// these learn what they lack.
func (d *Directory) Leave(ended map[string]uint64) (death connection.Packet, born bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if born = d.self.state == announced; born {
		death = d.presence(false, d.self.epoch(), time.Now(), ended)
	}
	d.self.state = leaving
	return death, born
}

// answerRival tells whoever asked that this incarnation lives, at once or when the
// lane opens.
func (d *Directory) answerRival() {
	if d.net.Put(*d.signal(wire.KindHere)) != nil {
		wait.Signal(d.self.asked)
	}
}

// rebirth publishes the birth again, at once or when the lane opens.
func (d *Directory) rebirth() { d.self.owesBirth = d.net.Put(d.self.birth.Packet) != nil }

// signaled handles a message in the own inbox from an incarnation of this id.
func (d *Directory) signaled(k wire.Kind, incarnation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.self
	older := incarnation < d.Incarnation
	switch {
	case s.state == leaving:
	case incarnation == d.Incarnation:
		if k == wire.KindWho {
			wait.Signal(s.echo)
		}
	case k == wire.KindWho && s.state == announced:
		d.answerRival()
	case k == wire.KindWho && !older:
		s.beaten = incarnation
		wait.Signal(s.asked)
	case k == wire.KindHere && incarnation == s.beaten:
		// It answers our question, and has yet to read our answer to its own:
		// if both yielded, nobody would stay.
	case k == wire.KindHere && s.state == announced && !older:
		// It sees our birth and ends.
	case s.state == announced:
		d.net.End(d.duplicate(incarnation))
	default:
		select {
		case s.rival <- incarnation:
		default:
		}
	}
}

// isBirth recognizes the echo of every birth cheaply.
func (s *self) isBirth(payload []byte) bool {
	if s.birth == nil || !bytes.Equal(payload, s.birth.Packet.Payload) {
		return false
	}
	select {
	case <-s.born:
	default:
		close(s.born)
	}
	return true
}

// Seen handles what is on the topic of our own presence.
func (d *Directory) Seen(payload []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(payload) > 0 && !d.self.isBirth(payload) {
		d.seen(payload)
	}
	if p := d.peers[d.ID]; p != nil && p.watch != nil {
		d.hear(d.ID, payload, false)
	}
}

func (d *Directory) seen(payload []byte) {
	s := &d.self
	pr, err := ParsePresence(d.ID, payload)
	if err != nil {
		d.net.Drop(drop.Malformed, d.Topic(), err)
		return
	}
	own := pr.Incarnation == d.Incarnation
	switch {
	case s.state == absent && pr.Alive && !own:
		s.claimed = pr.Incarnation
	case s.state == absent:
		s.claimed = 0
	case s.state == leaving, pr.Alive && own:
	case pr.Alive && pr.Incarnation < d.Incarnation:
		d.net.End(d.duplicate(pr.Incarnation))
	default: // dead, or a younger rival which will see this birth and end
		d.rebirth()
		if own && pr.Epoch == s.birth.epoch { // others have forgotten what it announced
			d.announceAll()
		}
	}
}
