package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Writer writes samples of a topic. Its methods may be called from several
// goroutines; their samples are numbered in the order of the calls' effects.
type Writer[T any] struct {
	topic *Topic[T]
	qos   QoS
	ep    *localEndpoint
	send  *sender
}

// NewWriter makes a writer and announces it. It blocks until the participant is
// ready to write, or ctx ends. Errors: ErrUnsupportedQoS and ErrInvalid for its
// QoS, ErrRefused, ErrClosed.
func NewWriter[T any](ctx context.Context, t *Topic[T], opts ...EndpointOption) (*Writer[T], error) {
	o, err := gather(opts)
	if err == nil {
		err = o.checkWriter()
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
	ev := newEvents()
	ev.count = t.p.counters.status
	announcement := t.announcement("writer", &o)
	announcement.QoS.Bundles = o.coalescing > 0
	w.ep, err = x.add("w", announcement, ev, func(name string) core {
		w.send = newSender(name, t.p.incarnation, q, ev)
		w.send.life = x.lifeOf(&q)
		to := &address{
			before: t.p.root + "/data/", middle: "/" + level + "/", after: "/" + t.p.level + "/" + name,
			qos: byte(q.Reliability), delay: o.gatherFor(), bundles: map[string]*bundle{},
		}
		w.send.publish = w.send.toPartitions(func(partition, key string, payload []byte) error {
			return x.samples.put(to.packet(partition, key, payload, w.send.company))
		})
		w.send.coalesces, w.send.keyed = o.coalescing > 0, len(t.keys) > 0
		w.send.regroup()
		if q.Durability == Transient {
			w.send.retention = newRetention(func(partition, key string, payload []byte) error {
				p := to.packet(partition, key, payload, alone)
				p.retain = true
				return x.samples.put(p)
			})
		}
		w.send.post, w.send.wake = x.post, func() { signal(x.wake) }
		w.send.placed, w.send.passed, w.send.urge = x.samples.last, x.data.passed, x.samples.send
		return w.send
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (t *Topic[T]) announcement(kind string, o *endpointOptions) endpointJSON {
	q := &o.QoS
	return endpointJSON{Fields: t.fields, UserData: o.data, TopicData: t.data, Kind: kind, Topic: t.name, Type: t.typ, Codec: t.codec, Schema: t.schema, QoS: offer{q.Reliability, q.Durability, q.timeOffer(), q.dataOffer()}}
}

// GUID names this writer.
func (w *Writer[T]) GUID() GUID {
	return GUID{w.topic.p.id, w.topic.p.incarnation, w.ep.name}
}

// Write publishes v. A best-effort writer does not block and gets ErrOffline
// while there is no connection. A reliable one keeps v for its readers until
// they have acknowledged it, also over reconnections; it blocks while its
// history is full, at most until ctx ends or for MaxBlocking, and then returns
// ErrTimeout with nothing written. Write does not use v after it returns.
func (w *Writer[T]) Write(ctx context.Context, v T) error {
	return w.write(ctx, v, statusData, w.qos.MaxBlocking)
}

// TryWrite is Write without blocking: ErrTimeout if it would.
func (w *Writer[T]) TryWrite(v T) error {
	return w.write(context.Background(), v, statusData, 0)
}

// Dispose tells readers that the instance which v's key names is gone. Only the
// key fields of v matter. It blocks as Write does.
func (w *Writer[T]) Dispose(ctx context.Context, v T) error {
	return w.write(ctx, v, statusDispose, w.qos.MaxBlocking)
}

// Unregister tells readers that this writer will not write the instance which
// v's key names any more; without another writer its state becomes NoWriters.
func (w *Writer[T]) Unregister(ctx context.Context, v T) error {
	return w.write(ctx, v, statusUnregister, w.qos.MaxBlocking)
}

func (w *Writer[T]) write(ctx context.Context, v T, s status, patience time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	encode := w.topic.encodeSample
	if s != statusData {
		encode = w.topic.encodeKey
	}
	body, err := encode(v)
	if err != nil {
		return err
	}
	key, err := EncodeLevel(w.topic.key(v))
	if err != nil {
		return err
	}
	e := envelope{nanos: uint64(time.Now().UnixNano()), schema: w.topic.schema, body: body}
	e.options.status = s
	if s == statusData {
		e.options.lifespan = uint64(w.qos.Lifespan)
	}
	var timeout <-chan time.Time
	for {
		if w.over() {
			return w.topic.p.exchange.err("writer", w.topic.name)
		}
		wait, err := w.send.tryWrite(key, &e)
		if errors.Is(err, ErrBacklog) && w.qos.Reliability == Reliable {
			wait = w.topic.p.exchange.samples.room()
		}
		if wait == nil {
			return err
		}
		if patience == 0 {
			return w.giveUp(err)
		}
		if timeout == nil {
			t := time.NewTimer(patience)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-wait:
		case <-timeout:
			return w.giveUp(err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.ep.ended:
		}
	}
}

func (w *Writer[T]) giveUp(err error) error {
	if errors.Is(err, errFull) {
		return w.send.fullError()
	}
	return fmt.Errorf("%w: %w", ErrTimeout, err)
}

func (w *Writer[T]) over() bool {
	select {
	case <-w.ep.ended:
		return true
	default:
		return false
	}
}

// WaitAcked blocks until every matched reliable reader has received all samples
// written before the call, or ctx ends. It is an acknowledgement of the readers,
// not of the broker. Without such readers it returns at once.
func (w *Writer[T]) WaitAcked(ctx context.Context) error {
	seq := w.send.last()
	for {
		wait := w.send.lagging(seq)
		if wait == nil {
			return nil
		}
		if err := w.await(ctx, wait); err != nil {
			return err
		}
	}
}

// WaitMatched blocks until at least n readers match and have said so themselves:
// what is written afterwards reaches them.
func (w *Writer[T]) WaitMatched(ctx context.Context, n int) error {
	for {
		have, change := w.send.confirmedReaders()
		if have >= n {
			return nil
		}
		if err := w.await(ctx, change); err != nil {
			return err
		}
	}
}

func (w *Writer[T]) await(ctx context.Context, change <-chan struct{}) error {
	select {
	case <-change:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.ep.ended:
		return w.topic.p.exchange.err("writer", w.topic.name)
	}
}

// Events yields status changes until ctx ends; if the writer or its participant
// ends first, the error is yielded last. Without a caller the last 256 are kept.
func (w *Writer[T]) Events(ctx context.Context) iter.Seq2[Event, error] {
	return w.ep.events.all(ctx, w.ep.ended, func() error { return w.topic.p.exchange.err("writer", w.topic.name) })
}

// Close withdraws the writer after the broker has what it wrote; ctx bounds the
// waiting for that. Its instances lose it as a writer, and late joiners get no
// history, but what is Transient. Use WaitAcked before to be sure of the readers.
func (w *Writer[T]) Close(ctx context.Context) error {
	x := &w.topic.p.exchange
	var err error
	if !w.over() {
		err = x.data.flush(ctx)
	}
	x.remove(w.ep)
	return err
}
