package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
)

// Operator asks voters about themselves, and has them replaced.
type Operator struct {
	transport Transport

	mu      sync.Mutex
	lastSeq uint64
	waiting map[uint64]question
}

// question is what a voter was asked.
type question struct {
	to     string
	answer chan *caspaxos.Message // has room for one
}

// NewOperator returns an operator. The transport must call Receive for each message
// that arrives. One that is no longer used needs no closing.
func NewOperator(t Transport) *Operator {
	return &Operator{transport: t, lastSeq: register.NewNonce(), waiting: map[uint64]question{}}
}

// Receive takes a message of a voter, whose name the transport vouches for. It does
// not block, and keeps nothing of message.
func (o *Operator) Receive(from string, message []byte) {
	msg, err := caspaxos.Decode(message)
	if err != nil || msg.Kind != caspaxos.KindReport && msg.Kind != caspaxos.KindReplaced {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.waiting[msg.Seq]; q.to == from && q.answer != nil {
		delete(o.waiting, msg.Seq)
		q.answer <- msg
	}
}

// Inquire asks a participant for its report, again and again until the context ends.
// It returns the round trip of the question that was answered.
func (o *Operator) Inquire(ctx context.Context, voter string) (Report, time.Duration, error) {
	for {
		asked := time.Now()
		again, cancel := context.WithTimeout(ctx, time.Second)
		msg, err := o.ask(again, voter, &caspaxos.Message{Kind: caspaxos.KindInquire})
		cancel()
		if err != nil && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Report{}, 0, err
		}
		trip := time.Since(asked)
		var r Report
		if err := json.Unmarshal([]byte(msg.Text), &r); err != nil || r.ID != voter {
			return Report{}, 0, fmt.Errorf("%w: the report of %s cannot be read: is it of another version? %w", register.ErrInvalid, voter, err)
		}
		return r, trip, nil
	}
}

// Replace asks the voter at to have a voter take the place of another one; see
// [Voter.Replace]. It returns once that is decided. An error that is ErrUnknown says
// that it may be decided all the same: the reports say.
func (o *Operator) Replace(ctx context.Context, at, old, by string) error {
	within := time.Minute
	if end, ok := ctx.Deadline(); ok {
		within = time.Until(end)
	}
	msg, err := o.ask(ctx, at, &caspaxos.Message{Kind: caspaxos.KindReplace, Old: old, New: by, Within: caspaxos.Time(within)})
	switch {
	case err != nil:
		return err
	case msg.Failed:
		return &register.Unavailable{Missing: msg.Missing, Unknown: true}
	case msg.Text != "":
		return errors.New(msg.Text)
	}
	return nil
}

// ask sends a question once and waits for its answer.
func (o *Operator) ask(ctx context.Context, to string, msg *caspaxos.Message) (*caspaxos.Message, error) {
	q := question{to, make(chan *caspaxos.Message, 1)}
	o.mu.Lock()
	o.lastSeq++
	msg.Seq = o.lastSeq
	o.waiting[msg.Seq] = q
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		delete(o.waiting, msg.Seq)
		o.mu.Unlock()
	}()
	_ = o.transport.Send(to, caspaxos.AppendMessage(nil, msg)) // a loss
	select {
	case answer := <-q.answer:
		return answer, nil
	case <-ctx.Done():
		return nil, &register.Unavailable{Missing: []string{to}, Unknown: msg.Kind == caspaxos.KindReplace, Cause: ctx.Err()}
	}
}
