package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// A Sample is a value, or with Info.Valid false only a change of an instance's
// state, in which case Data has no meaning.
type Sample[T any] struct {
	Data T
	Info SampleInfo
}

// SampleInfo says where a sample comes from and what it means for its instance.
type SampleInfo struct {
	Valid    bool
	State    InstanceState // of the instance after this sample
	Key      string        // text of the key fields, or "=" and a hash if a topic cannot carry it; "-" without key
	Writer   GUID
	Sequence uint64 // of the writer, from 1; 0 if no sample of it was received

	SourceTime  time.Time // by the writer's clock
	ReceiveTime time.Time // by ours

	DisposedGeneration  int // how often the instance came back after a disposal
	NoWritersGeneration int // how often after it had lost its writers
}

// A Reader receives samples of a topic into a cache from which the application
// takes them. Its methods may be called from several goroutines, each sample is
// taken once.
type Reader[T any] struct {
	topic *Topic[T]
	ep    *localEndpoint
	recv  *receiver
	stop  func()
}

// NewReader makes a reader and announces it. It blocks until samples can arrive
// or ctx ends. Errors: ErrUnsupportedQoS and ErrInvalid for its QoS, ErrRefused,
// ErrClosed.
func NewReader[T any](ctx context.Context, t *Topic[T], opts ...EndpointOption) (*Reader[T], error) {
	o, err := gather(opts)
	var keep keeper
	var only string
	if err == nil {
		err = o.checkReader()
	}
	if err == nil && o.coalescing != 0 {
		err = fmt.Errorf("%w: coalescing is for writers, readers take apart what comes", ErrInvalid)
	}
	if err == nil {
		keep, err = t.keeper(&o)
	}
	if err == nil {
		only, err = t.only(&o)
	}
	if err != nil {
		return nil, fmt.Errorf("reader of topic %q: %w", t.name, err)
	}
	x := &t.p.exchange
	if err := x.start(ctx); err != nil {
		return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
	}
	q := o.QoS
	r := &Reader[T]{topic: t}
	ev := newEvents()
	ev.count = t.p.counters.status
	r.recv = newReceiver("", t.p.incarnation, t.schema, q, ev)
	r.recv.post = x.post
	r.recv.wake = x.wake
	r.recv.drop = t.p.counters.drop
	r.recv.keep, r.recv.narrow = keep, only != ""
	if err := r.subscribe(ctx, q.Partition, only); err != nil {
		return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
	}
	if q.Durability == Transient {
		if err := x.caughtUp(ctx); err != nil {
			r.stop()
			return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
		}
	}
	announcement := t.announcement("reader", &o)
	announcement.QoS.Instance, announcement.QoS.Bundles = only, true
	r.ep, err = x.add("r", announcement, ev, func(name string) core {
		r.recv.name = name
		return r.recv
	})
	if err != nil {
		r.stop()
		return nil, err
	}
	if q.TimeBasedFilter > 0 {
		t.p.start(func() { r.recv.separate(r.ep.ended, t.p.ctx.Done()) })
	}
	return r, nil
}

// subscribe has samples arrive from partitions, of one instance or of all.
func (r *Reader[T]) subscribe(ctx context.Context, in partitions, only string) error {
	p := r.topic.p
	key := "+"
	if only != "" {
		var err error
		if key, err = EncodeLevel(only); err != nil {
			return err
		}
	}
	var stops []func()
	r.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	level, _ := EncodeLevel(r.topic.name) // checked by NewTopic
	for _, partition := range in.filters() {
		stop, err := p.subscribe(ctx, p.exchange.data, p.root+"/data/"+partition+"/"+level+"/"+key+"/+/+", r.receive)
		if err != nil {
			r.stop()
			return err
		}
		stops = append(stops, stop)
	}
	return nil
}

// receive takes data/{partition}/{topic}/{key}/{P}/{writer} apart.
func (r *Reader[T]) receive(topic string, payload []byte, retained bool) {
	end := strings.LastIndexByte(topic, '/')
	participant := strings.LastIndexByte(topic[:end], '/')
	key := strings.LastIndexByte(topic[:participant], '/')
	name, err := DecodeLevel(topic[key+1 : participant])
	if err != nil {
		r.topic.p.drop(dropTopic, topic, err)
		return
	}
	levels := topic[participant+1:]
	if len(payload) > 0 && retained && !r.within(topic) {
		return
	}
	switch {
	case len(payload) == 0:
		r.recv.cleared(name, levels)
	case retained:
		r.topic.p.exchange.retained(r.recv, name, levels, payload)
	default:
		r.recv.sample(name, levels, payload)
	}
}

// within reports whether a topic is of a partition that the reader matches: with a
// pattern it hears of all. Of the living, matching decides; the dead match nobody.
func (r *Reader[T]) within(topic string) bool {
	_, rest, _ := strings.Cut(topic, "/")
	level, _, _ := strings.Cut(rest, "/")
	partition, err := DecodeLevel(level)
	return err == nil && partitions(r.recv.qos.Partition).has(partition)
}

// GUID names this reader.
func (r *Reader[T]) GUID() GUID {
	return GUID{r.topic.p.id, r.topic.p.incarnation, r.ep.name}
}

// Take removes up to n samples that wait, oldest first. It does not block.
func (r *Reader[T]) Take(n int) []Sample[T] {
	var out []Sample[T]
	for len(out) < n {
		s, ok := r.takeOne()
		if !ok {
			break
		}
		out = append(out, s)
	}
	return out
}

// takeOne reports false when nothing waits.
func (r *Reader[T]) takeOne() (Sample[T], bool) {
	for h := r.recv.takeNext(); h != nil; h = r.recv.takeNext() {
		if s, ok := r.decode(h, false); ok {
			return s, true
		}
	}
	return Sample[T]{}, false
}

// Read returns up to n samples that wait, oldest first, and leaves them there.
// It does not block.
func (r *Reader[T]) Read(n int) []Sample[T] {
	var out []Sample[T]
	for _, h := range r.recv.waiting(n) {
		if s, ok := r.decode(h, true); ok {
			out = append(out, s)
		}
	}
	return out
}

// decode reports false, with an event, if the sample is not a T. The decoded
// value may share memory with the encoded one, which stays after a Read.
func (r *Reader[T]) decode(h *held, again bool) (Sample[T], bool) {
	s := Sample[T]{Info: h.info}
	if !h.info.Valid {
		return s, true
	}
	body := h.body
	if again {
		body = bytes.Clone(body)
	}
	if err := r.topic.codec.decode(body, &s.Data); err != nil {
		r.topic.p.counters.drop(dropMalformed)
		r.ep.events.add(SampleRejected{h.info.Writer, fmt.Errorf("pubsub: a sample of topic %q is not a %s: %w", r.topic.name, r.topic.typ, err)})
		return s, false
	}
	return s, true
}

// Samples takes samples as they come, until ctx ends; if the reader or its
// participant ends first, what waits is yielded, then the error.
func (r *Reader[T]) Samples(ctx context.Context) iter.Seq2[Sample[T], error] {
	return func(yield func(Sample[T], error) bool) {
		for ctx.Err() == nil {
			if s, ok := r.takeOne(); ok {
				if !yield(s, nil) {
					signal(r.recv.cache.wake) // for another goroutine in Samples
					return
				}
				continue
			}
			select {
			case <-r.recv.cache.wake:
			case <-ctx.Done():
			case <-r.ep.ended:
				if len(r.recv.waiting(1)) > 0 {
					continue
				}
				yield(Sample[T]{}, r.topic.p.exchange.err("reader", r.topic.name))
				return
			}
		}
	}
}

// WaitMatched blocks until at least n writers match.
func (r *Reader[T]) WaitMatched(ctx context.Context, n int) error {
	for {
		have, change := r.recv.matches()
		if have >= n {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ep.ended:
			return r.topic.p.exchange.err("reader", r.topic.name)
		}
	}
}

// Events yields status changes until ctx ends; if the reader or its participant
// ends first, the error is yielded last. Without a caller the last 256 are kept.
func (r *Reader[T]) Events(ctx context.Context) iter.Seq2[Event, error] {
	return r.ep.events.all(ctx, r.ep.ended, func() error { return r.topic.p.exchange.err("reader", r.topic.name) })
}

// Close withdraws the reader. What waits can still be taken. It does not block.
func (r *Reader[T]) Close() {
	r.stop()
	r.topic.p.exchange.remove(r.ep)
}
