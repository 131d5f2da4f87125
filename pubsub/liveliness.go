package pubsub

import (
	"fmt"
	"time"

	"padme/pubsub/internal/reliable"
)

// Liveliness says what asserts that a writer is alive, within each LivelinessLease.
type Liveliness uint8

// Kinds of liveliness, weakest first.
const (
	// Automatic: the participant, as long as its process runs and is connected.
	Automatic Liveliness = iota
	// ManualByParticipant: the application, for all such writers of the participant at
	// once, by writing with one of them or by Participant.AssertLiveliness.
	ManualByParticipant
	// ManualByTopic: the application, for each writer, by writing with it or by
	// Writer.AssertLiveliness.
	ManualByTopic
)

type (
	// LivelinessLost says that this writer was not asserted within its LivelinessLease.
	// Until it is, its readers consider it dead.
	LivelinessLost struct {
		Total uint64 // how often so far
	}
	// LivelinessChanged says that a matched writer has become alive, or is not alive any
	// more: its lease expired, it was closed, or the broker reported its death.
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

// AssertLiveliness asserts that the application is alive: for this writer if it is
// ManualByTopic, or for all writers of the participant that are ManualByParticipant if it
// is one of them. An Automatic writer does not need it. It does not block. The error says
// why the writer has ended.
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

// AssertLiveliness asserts that the application is alive, for all writers that are
// ManualByParticipant. It does not block. The error says why the participant has ended.
func (p *Participant) AssertLiveliness() error {
	p = p.orEnded()
	if p.ctx.Err() != nil {
		return fmt.Errorf("pubsub: participant %q: %w", p.id, p.Err())
	}
	p.exchange.manual.Assert(time.Now())
	p.exchange.stir()
	return nil
}
