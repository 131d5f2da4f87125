package pubsub

import (
	"fmt"
	"time"

	"padme/pubsub/internal/reliable"
)

// Liveliness is who says that a writer is alive, within each LivelinessLease.
type Liveliness uint8

// Kinds of liveliness, weakest first.
const (
	// Automatic: the participant does, as long as its process runs and is
	// connected.
	Automatic Liveliness = iota
	// ManualByParticipant: the application does for all such writers of the
	// participant at once, by writing with one of them or AssertLiveliness.
	ManualByParticipant
	// ManualByTopic: the application does for each writer, by writing with it or
	// Writer.AssertLiveliness.
	ManualByTopic
)

type (
	// LivelinessLost says that this writer was not asserted within its
	// LivelinessLease; its readers take it for dead until it is.
	LivelinessLost struct {
		Total uint64 // how often so far
	}
	// LivelinessChanged says that a matched writer is alive, or not any more: its
	// lease ended, it was closed, or the broker says that it died.
	LivelinessChanged struct {
		Writer          GUID
		Alive           bool
		AliveWriters    int // of those matched
		NotAliveWriters int // of those matched
	}
)

func (LivelinessLost) event() statusKind    { return countLivelinessLost }
func (LivelinessChanged) event() statusKind { return countLivelinessChanged }

// assertionOf returns when a new writer was asserted, with a finite lease or for others of
// its participant that have one, else nil; that it is made counts as an assertion.
func (x *exchange) assertionOf(q *QoS) *reliable.Assertion {
	if q.LivelinessLease == 0 && q.Liveliness != ManualByParticipant {
		return nil
	}
	a := &reliable.Assertion{}
	if q.Liveliness == ManualByParticipant {
		a = &x.manual
	}
	a.Assert(time.Now())
	return a
}

// AssertLiveliness says that the application is alive: for this writer if it is
// ManualByTopic, for all writers of the participant that are ManualByParticipant
// if it is one. An automatic one needs none. It does not block. The error is why
// the writer has ended.
func (w *Writer[T]) AssertLiveliness() error {
	if err := w.made(); err != nil {
		return err
	}
	x := &w.topic.p.exchange
	if w.ep.over() {
		return w.ep.Err()
	}
	w.send.Asserted(time.Now())
	x.stir()
	return nil
}

// AssertLiveliness says that the application is alive, for all writers that are
// ManualByParticipant. It does not block. The error is why the participant has
// ended.
func (p *Participant) AssertLiveliness() error {
	p = p.orEnded()
	if p.ctx.Err() != nil {
		return fmt.Errorf("pubsub: participant %q: %w", p.id, p.Err())
	}
	p.exchange.manual.Assert(time.Now())
	p.exchange.stir()
	return nil
}
