package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// A Writer writes samples of a topic. Its methods may be called from several goroutines;
// samples are numbered in the order in which the calls take effect.
type Writer[T any] struct {
	topic *Topic[T]
	qos   QoS // as it was made: SetQoS may have changed what is mutable
	ep    *localEndpoint
	send  *reliable.Sender
}

// NewWriter creates a writer and announces it. It blocks until the participant is ready to
// write and existing readers have matched, so that they get what is written first, or until
// ctx ends. That takes a few round trips. If the broker does not report existing readers
// (RabbitMQ), it waits 0.3 s longer for them to answer. Errors: ErrUnsupportedQoS and
// ErrInvalid for its QoS, ErrRefused, ErrUnannounced, ErrClosed.
func NewWriter[T any](ctx context.Context, t *Topic[T], opts ...EndpointOption) (*Writer[T], error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	o, err := gather(opts)
	if err == nil {
		err = o.checkWriter()
	}
	if err == nil {
		err = t.p.needPresence("a writer")
	}
	if err != nil {
		return nil, fmt.Errorf("writer of topic %q: %w", t.name, err)
	}
	x := &t.p.exchange
	if err := x.start(ctx); err != nil {
		return nil, fmt.Errorf("pubsub: writer of topic %q: %w", t.name, err)
	}
	q := o.QoS
	w := &Writer[T]{topic: t, qos: q}
	level, _ := EncodeLevel(t.name) // checked by NewTopic
	if q.Durability == Transient {
		if err := x.learnEarlier(ctx, partition.List(q.Partition).Filters(), level); err != nil {
			return nil, fmt.Errorf("pubsub: what the broker keeps of topic %q: %w", t.name, err)
		}
	}
	announcement := t.announcement("writer", &o)
	announcement.QoS.Bundles = o.coalescing > 0
	ev := newEvents(t.p.counters.status)
	w.ep, err = x.join(ctx, "w", announcement, q, ev, func(name string) core {
		to := &address{
			name: name, before: t.p.root + "/data/", middle: "/" + level + "/", after: "/" + t.p.level + "/" + name,
			qos: byte(q.Reliability), bundles: map[string]*connection.Bundle{},
		}
		w.send = reliable.NewSender(&reliable.Writer{
			Policies: q.delivery(), Topic: t.name, Name: name, Incarnation: t.p.incarnation, Keyed: len(t.keys) > 0,
			Coalescing: o.coalescing, Assertion: x.assertionOf(&q), Online: t.p.Connected,
		}, x.outOf(to), ev)
		return w.send
	})
	if err != nil {
		return nil, fmt.Errorf("pubsub: writer of topic %q: %w", t.name, err)
	}
	if err := x.p.directory.MetAllOf(ctx, t.name); err != nil {
		x.p.directory.Remove(w.ep.Local)
		return nil, fmt.Errorf("pubsub: finding the readers of topic %q: %w", t.name, err)
	}
	return w, nil
}

func (t *Topic[T]) announcement(kind string, o *endpointOptions) discovery.Announcement {
	return discovery.Announcement{Fields: t.fields, UserData: o.data, TopicData: t.data, Kind: kind, Topic: t.name, Type: t.typ, Codec: string(t.codec), Schema: t.schema, QoS: o.offer()}
}

// GUID identifies this writer.
func (w *Writer[T]) GUID() GUID {
	if w == nil || w.ep == nil {
		return GUID{}
	}
	return GUID{w.topic.p.id, w.topic.p.incarnation, w.ep.Name}
}

// Write publishes v. A best-effort writer does not block, and returns ErrOffline while
// there is no connection. A reliable one keeps v until its readers have acknowledged it,
// also across reconnections. It blocks while its history is full, until ctx's deadline or
// for MaxBlocking, whichever is earlier, and then returns ErrTimeout with nothing written.
// Writes that wait go on in the order in which they came. The error also wraps why ctx
// ended; a cancellation is not an ErrTimeout. Write does not use v after it returns.
func (w *Writer[T]) Write(ctx context.Context, v T) error {
	return w.write(ctx, v, wire.StatusData, true)
}

// TryWrite is Write without blocking: it returns ErrTimeout if Write would block.
func (w *Writer[T]) TryWrite(v T) error {
	return w.write(context.Background(), v, wire.StatusData, false)
}

// Dispose tells readers that the instance named by v's key is gone. Only the key fields of
// v matter. It blocks as Write does.
//
// With Transient, the broker forgets what this writer has left of the instance, and what
// all writers of earlier incarnations of its participant have left, whatever their names,
// in the partitions that the writer had when it was created.
func (w *Writer[T]) Dispose(ctx context.Context, v T) error {
	return w.write(ctx, v, wire.StatusDispose, true)
}

// Unregister tells readers that this writer will no longer write the instance named by v's
// key. Without another writer, the state of the instance becomes NoWriters.
func (w *Writer[T]) Unregister(ctx context.Context, v T) error {
	return w.write(ctx, v, wire.StatusUnregister, true)
}

func (w *Writer[T]) write(ctx context.Context, v T, s wire.Status, blocks bool) error {
	if err := w.made(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pubsub: writing to topic %q: %w", w.topic.name, whyEnded(ctx))
	}
	encode := w.topic.encodeSample
	if s != wire.StatusData {
		encode = w.topic.encodeKey
	}
	body, buffer, err := encode(v)
	e := wire.Envelope{JSON: w.topic.codec == JSON, Schema: w.topic.schema, Body: body, Buffer: buffer}
	defer func() { reliable.Free(e.Buffer) }() // unless it was taken
	if err != nil {
		return err
	}
	key, err := EncodeLevel(w.topic.key(v))
	if err != nil {
		return err
	}
	e.Nanos = uint64(time.Now().UnixNano())
	e.Options.Status = s
	h := held{queue: w.topic.p.exchange.samples}
	defer h.over(&e)
	err = h.queue.Yield(len(body))
	for {
		if w.ep.over() {
			return w.ep.Err()
		}
		if err == nil {
			err = h.try(w.send, key, &e, blocks)
		}
		if blocks && errors.Is(err, reliable.ErrFull) {
			over := false
			if over, err = w.inLine(ctx, &h); !over {
				return err
			}
		}
		switch {
		case errors.Is(err, ErrClosed): // it is about to end
			return w.ep.Err()
		case errors.Is(err, reliable.ErrFull):
			return w.tooLate(err)
		case !errors.Is(err, ErrBacklog) || w.qos.Reliability != Reliable:
			return err
		case !blocks:
			return w.tooLate(err)
		}
		if err = w.holdOn(ctx, &h, err); err != nil {
			return err
		}
	}
}

// held is what a write has while something holds it up.
type held struct {
	queue *connection.Queue
	turn  *connection.Turn  // while that is the queue, which has no room
	waits *reliable.Waiting // once it was the history, and has the envelope
	timer *time.Timer
}

func (h *held) try(s *reliable.Sender, key string, e *wire.Envelope, blocks bool) (err error) {
	switch {
	case h.waits != nil:
		return h.waits.Again()
	case !blocks:
		return s.TryWrite(key, e)
	}
	if h.waits, err = s.Write(key, e); h.waits != nil {
		e.Buffer = nil
	}
	return err
}

// over gives the envelope back.
func (h *held) over(e *wire.Envelope) {
	if h.waits != nil {
		_, *e, _ = h.waits.Leave()
	}
	h.leaveTurn()
	if h.timer != nil {
		h.timer.Stop()
	}
}

func (h *held) leaveTurn() {
	if h.turn != nil {
		h.turn.Leave()
		h.turn = nil
	}
}

// late is when a write has waited for as long as it may.
func (w *Writer[T]) late(h *held) <-chan time.Time {
	if h.timer == nil {
		h.timer = time.NewTimer(w.qos.MaxBlocking)
	}
	return h.timer.C
}

// inLine waits until a write that the history has no room for has left the line, or is too late.
func (w *Writer[T]) inLine(ctx context.Context, h *held) (over bool, err error) {
	h.leaveTurn() // others need the room in the queue
	var why func() error
	select {
	case <-h.waits.Done():
		return true, h.waits.Err()
	case <-w.ep.ended:
		why = w.ep.Err
	case <-w.late(h):
		why = func() error { return w.tooLate(reliable.ErrFull) }
	case <-ctx.Done():
		why = func() error { return w.gaveUp(ctx, reliable.ErrFull) }
	}
	if over, _, err := h.waits.Leave(); over && !errors.Is(err, ErrBacklog) {
		return true, err
	}
	return false, why()
}

// holdOn waits until a write that the queue has no room for is worth trying again, or too late.
func (w *Writer[T]) holdOn(ctx context.Context, h *held, err error) error {
	var wait <-chan struct{}
	if full, ok := errors.AsType[*connection.NoRoom](err); ok {
		if h.turn == nil {
			h.turn = h.queue.Turn()
		}
		wait = h.turn.Wait(full.Size)
	}
	select {
	case <-wait:
		return nil
	case <-w.ep.ended:
		return nil
	case <-w.late(h):
		return w.tooLate(err)
	case <-ctx.Done():
		return w.gaveUp(ctx, err)
	}
}

// tooLate is the error of a write that err has held up for too long.
func (w *Writer[T]) tooLate(err error) error {
	return fmt.Errorf("%w: %w", ErrTimeout, w.heldUp(err))
}

// gaveUp is the error of a write that err has held up until ctx ended.
func (w *Writer[T]) gaveUp(ctx context.Context, err error) error {
	why := whyEnded(ctx)
	if errors.Is(why, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", w.tooLate(err), why)
	}
	return fmt.Errorf("pubsub: writing to topic %q: %w: %w", w.topic.name, w.heldUp(err), why)
}

// heldUp says what holds a write up, and what helps.
func (w *Writer[T]) heldUp(err error) error {
	if errors.Is(err, reliable.ErrFull) {
		return errors.New(w.send.WhyFull())
	}
	return err
}

// WaitAcked blocks until every matched reliable reader has received all samples written
// before the call, or ctx ends. The acknowledgement is that of the readers, not of the
// broker. Without such readers it returns at once.
func (w *Writer[T]) WaitAcked(ctx context.Context) error {
	if err := w.made(); err != nil {
		return err
	}
	seq := w.send.Last()
	return w.ep.await(ctx, func() (bool, <-chan struct{}) {
		change := w.send.Lagging(seq)
		return change == nil, change
	})
}

// WaitMatched blocks until at least n readers match and have confirmed it: what is written
// afterwards reaches them. Errors: why ctx, or the writer, has ended.
func (w *Writer[T]) WaitMatched(ctx context.Context, n int) error {
	if err := w.made(); err != nil {
		return err
	}
	if w.ep.over() { // nothing that is written reaches anybody
		return w.ep.Err()
	}
	have := 0
	err := w.ep.await(ctx, func() (_ bool, change <-chan struct{}) {
		have, change = w.send.ConfirmedReaders()
		return have >= n, change
	})
	if err != nil && ctx.Err() != nil {
		return w.topic.unmatched(ctx, "readers", have, n, err)
	}
	return err
}

// Events yields status changes until ctx ends. If the writer or its participant ends first,
// the error is yielded last. While nothing calls Events, the last 256 are kept.
func (w *Writer[T]) Events(ctx context.Context) iter.Seq2[Event, error] {
	if err := w.made(); err != nil {
		return only[Event](err)
	}
	return w.ep.all(ctx)
}

// Close withdraws the writer after its matched reliable readers have acknowledged what it
// wrote, and the broker has the rest. ctx bounds the waiting. Without a deadline, Close
// waits as long as acknowledgements arrive with pauses of at most MaxBlocking or a second,
// whichever is longer. If readers still lack samples then, it returns ErrUndelivered: they
// get what is in transit, and SampleLost for the rest. For a best-effort or Transient
// writer, ErrOffline means the broker may not have the last values. A context error means
// it had not acknowledged them yet. The writer's instances lose it, and late joiners get no
// history, except what a Transient writer left.
//
// A writer with a Durability first looks for late joiners, for at most a second or a
// quarter of the time until ctx's deadline: a reader that existed when Close was called
// gets the history. A reader that comes later gets nothing.
func (w *Writer[T]) Close(ctx context.Context) error {
	if w == nil || w.ep == nil {
		return nil
	}
	x := &w.topic.p.exchange
	var err error
	if !w.ep.over() {
		x.meetLateJoiners(ctx, w.ep)
		if err = w.send.Linger(ctx, w.ep.ended); err == nil {
			err = w.flush(ctx)
		}
	}
	x.p.directory.Remove(w.ep.Local)
	return err
}

// flush waits until the broker has what no reader has acknowledged. If it is away, or ctx
// has ended, a reliable writer lacks nothing by then, unless late joiners were to find its
// values there.
func (w *Writer[T]) flush(ctx context.Context) error {
	err := w.topic.p.exchange.data.Flush(ctx)
	kind, lacks := "best-effort", "last samples"
	switch {
	case err == nil || !errors.Is(err, ErrOffline) && ctx.Err() == nil:
		return err
	case w.qos.Reliability == Reliable && w.qos.Durability != Transient:
		return nil
	case w.qos.Durability == Transient:
		kind, lacks = "transient", "last values for late joiners"
	}
	if errors.Is(err, ErrOffline) {
		return fmt.Errorf("%w: the %s writer of topic %q was closed while the broker was away, which may lack its %s", err, kind, w.topic.name, lacks)
	}
	return fmt.Errorf("pubsub: the %s writer of topic %q was closed before the broker had acknowledged its %s: %w", kind, w.topic.name, lacks, err)
}
