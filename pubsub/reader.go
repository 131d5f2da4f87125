package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/reliable"
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
	Key      string        // text of the key fields, or "=" and a hash if that does not fit in a topic; "-" without a key
	Writer   GUID
	Sequence uint64 // of the writer, from 1; 0 if none of its samples was received

	SourceTime  time.Time // by the writer's clock
	ReceiveTime time.Time // by ours

	DisposedGeneration  int // how often the instance had come back after a disposal when this sample arrived
	NoWritersGeneration int // how often it had come back after it had lost its writers

	// States at the time when this sample was read or taken: whether it had been read
	// before, whether the application had seen the instance before, and the state of the
	// instance, which later samples may have changed.
	SampleState   SampleState
	ViewState     ViewState
	InstanceState InstanceState
}

// A Reader receives samples of a topic into a cache, from which the application takes them.
// Its methods may be called from several goroutines; each sample is taken once.
type Reader[T any] struct {
	topic    *Topic[T]
	ep       *localEndpoint
	recv     *reliable.Receiver
	key      string    // level of its subscriptions
	changing wait.Turn // of a SetQoS

	mu         sync.Mutex
	subscribed map[string]func() // by the level of the partition; ends the subscription
	recalling  atomic.Bool       // what is retained is about to be asked for
}

// NewReader creates a reader and announces it. It blocks until the broker delivers to it,
// or ctx ends. At that time no writer may match yet, or know of the reader, so a Volatile
// reader may miss what is written until WaitMatched of the reader or the writer has
// returned. Errors: ErrUnsupportedQoS and ErrInvalid for its QoS, ErrRefused,
// ErrUnannounced, ErrClosed.
func NewReader[T any](ctx context.Context, t *Topic[T], opts ...EndpointOption) (*Reader[T], error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	o, err := gather(opts)
	var keep keeper
	var only string
	if err == nil {
		err = o.checkReader()
	}
	if err == nil {
		err = t.p.needPresence("a reader")
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
	r := &Reader[T]{topic: t, key: "+", changing: wait.NewTurn(), subscribed: map[string]func(){}}
	if only != "" {
		if r.key, err = EncodeLevel(only); err != nil {
			return nil, fmt.Errorf("reader of topic %q: %w", t.name, err)
		}
	}
	ev := newEvents(t.p.counters.status)
	r.recv = reliable.NewReceiver(&reliable.Reader{Policies: q.delivery(), Incarnation: t.p.incarnation, Schema: t.schema, Narrow: only != "", Patience: o.patience},
		reliable.Inlet{Post: t.p.message, Wake: x.stir, Drop: t.p.counters.drop, Recall: r.recallSoon, Filter: keep}, ev)
	if err := r.subscribe(ctx, partition.List(q.Partition).Filters()); err != nil {
		return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
	}
	if q.Durability == Transient {
		surveyed, err := x.survey(ctx, t.name)
		if err != nil {
			r.unsubscribeAll()
			return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
		}
		defer surveyed()
	}
	announcement := t.announcement("reader", &o)
	announcement.QoS.Instance, announcement.QoS.Bundles = only, true
	r.ep, err = x.join(ctx, "r", announcement, q, ev, func(name string) core {
		r.recv.Named(name)
		return r.recv
	})
	if err != nil {
		r.unsubscribeAll()
		return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
	}
	if q.Durability == Transient { // of writers that have closed since the survey
		if err = x.caughtUp(ctx); err == nil { // who closes from here on meets the reader first
			err = r.recall(ctx)
		}
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("pubsub: reader of topic %q: %w", t.name, err)
		}
	}
	return r, nil
}

// receive takes data/{partition}/{topic}/{key}/{P}/{writer} apart.
func (r *Reader[T]) receive(topic string, payload []byte, retained bool) {
	end := strings.LastIndexByte(topic, '/')
	participant := strings.LastIndexByte(topic[:end], '/')
	key := strings.LastIndexByte(topic[:participant], '/')
	name, err := DecodeLevel(topic[key+1 : participant])
	if err != nil {
		r.topic.p.drop(drop.Topic, topic, err)
		return
	}
	levels := topic[participant+1:]
	if len(payload) > 0 && retained && !r.recv.Reaches(partitionOf(topic)) {
		return // with a pattern it hears of all. Of the living, matching decides; the dead match nobody
	}
	switch {
	case len(payload) == 0:
		r.recv.Cleared(name, levels)
	case retained:
		r.topic.p.exchange.retained(r.recv, r.topic.name, partitionOf(topic), name, levels, payload)
	default:
		r.recv.Arrived(name, levels, payload)
	}
}

// partitionOf returns that of data/{partition}/…, "" if it is none.
func partitionOf(topic string) string {
	_, rest, _ := strings.Cut(topic, "/")
	level, _, _ := strings.Cut(rest, "/")
	partition, _ := DecodeLevel(level)
	return partition
}

// GUID identifies this reader.
func (r *Reader[T]) GUID() GUID {
	if r.made() != nil {
		return GUID{}
	}
	return GUID{r.topic.p.id, r.topic.p.incarnation, r.ep.Name}
}

// Take removes up to n waiting samples, oldest first, or only those that which selects. It
// does not block. The samples of one call have the states of one moment. Their instances
// are not new any more.
func (r *Reader[T]) Take(n int, which ...Selector) []Sample[T] {
	if r.made() != nil {
		return nil
	}
	x := selectionOf(which)
	var out []Sample[T]
	for len(out) < n {
		got := r.recv.Collect(n-len(out), &x, true)
		if len(got) == 0 {
			break
		}
		for _, h := range got {
			if s, ok := r.decode(h, false); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// takeOne reports false when nothing waits.
func (r *Reader[T]) takeOne() (Sample[T], bool) {
	for h := r.recv.TakeNext(); h != nil; h = r.recv.TakeNext() {
		if s, ok := r.decode(h, false); ok {
			return s, true
		}
	}
	return Sample[T]{}, false
}

// Read is Take, but the samples stay in the cache and count as read from then on: Read(n,
// NotRead) returns the samples that are new since the last call.
func (r *Reader[T]) Read(n int, which ...Selector) []Sample[T] {
	if r.made() != nil {
		return nil
	}
	x := selectionOf(which)
	var out []Sample[T]
	for _, h := range r.recv.Collect(n, &x, false) {
		if s, ok := r.decode(h, true); ok {
			out = append(out, s)
		} else {
			r.recv.Discard(h)
		}
	}
	return out
}

// Wait blocks until Read or Take with the same selectors would find a sample: a
// ReadCondition with its WaitSet (DDS 1.4, 2.2.2.5.8). A sample wakes all goroutines that
// wait. Errors: why ctx, or the reader, has ended.
func (r *Reader[T]) Wait(ctx context.Context, which ...Selector) error {
	x := selectionOf(which)
	return r.await(ctx, func() (bool, <-chan struct{}) { return r.recv.Waits(&x) })
}

// Lookup returns the instance that v's key fields name, and whether the reader knows it
// (lookup_instance, DDS 1.4, 2.2.2.5.3.29). An instance that is not alive may be forgotten
// once its samples are taken, if MaxInstances requires the room. If it comes back, it is
// New and its generations count from zero. Lookup does not block.
func (r *Reader[T]) Lookup(v T) (i Instance, known bool) {
	if r.made() != nil {
		return "", false
	}
	key := r.topic.key(v)
	return Instance(key), r.recv.Knows(key)
}

// WaitForHistoricalData blocks until the reader has received what was written before it by
// the writers that the broker reports at the time of the call (DDS 1.4, 2.2.2.5.3.33): what
// they still hold, and with Transient what writers that are gone have left. If the broker
// reports none (RabbitMQ), it waits for the writers that answer within 0.3 s. It returns at
// once for a Volatile reader. With KeepAll there must be room: take the samples as they
// arrive. Errors: why ctx, or the reader, has ended.
func (r *Reader[T]) WaitForHistoricalData(ctx context.Context) error {
	if err := r.made(); err != nil {
		return err
	}
	if r.QoS().Durability == Volatile {
		return nil
	}
	err := r.topic.p.directory.MetAllOf(ctx, r.topic.name)
	if err == nil {
		err = r.topic.p.exchange.samplesCame(ctx)
	}
	if err != nil {
		return fmt.Errorf("pubsub: waiting for the history of topic %q: %w", r.topic.name, err)
	}
	return r.await(ctx, r.recv.History)
}

// await blocks until what is awaited is there.
func (r *Reader[T]) await(ctx context.Context, there func() (bool, <-chan struct{})) error {
	if err := r.made(); err != nil {
		return err
	}
	return r.ep.await(ctx, there)
}

// decode reports false, with an event, if the sample is not a T. The decoded
// value may share memory with the encoded one, which stays after a Read.
func (r *Reader[T]) decode(h *cache.Held, again bool) (Sample[T], bool) {
	s := Sample[T]{Info: infoOf(h)}
	if !h.Valid() {
		return s, true
	}
	body := h.Body
	if again {
		body = bytes.Clone(body)
	}
	if err := r.topic.codec.decode(body, &s.Data); err != nil {
		r.topic.p.counters.drop(drop.Malformed)
		r.ep.events.add(SampleRejected{s.Info.Writer, fmt.Errorf("pubsub: a sample of topic %q is not a %s: %w", r.topic.name, r.topic.typ, err)})
		return s, false
	}
	return s, true
}

// Samples takes all samples as they arrive, until ctx ends. If the reader or its
// participant ends first, the samples that wait are yielded, and then the error. The zero QoS
// keeps one sample of each instance, so who takes them more slowly than they are written gets
// only the newest: see KeepLast and KeepAll.
func (r *Reader[T]) Samples(ctx context.Context) iter.Seq2[Sample[T], error] {
	if err := r.made(); err != nil {
		return only[Sample[T]](err)
	}
	return func(yield func(Sample[T], error) bool) {
		for ctx.Err() == nil {
			if s, ok := r.takeOne(); ok {
				if !yield(s, nil) {
					wait.Signal(r.recv.Wake()) // for another goroutine in Samples
					return
				}
				continue
			}
			select {
			case <-r.recv.Wake():
			case <-ctx.Done():
			case <-r.ep.ended:
				if some, _ := r.recv.Waits(&anySample); some {
					continue
				}
				yield(Sample[T]{}, r.ep.Err())
				return
			}
		}
	}
}

// WaitMatched blocks until at least n writers match. If both sides are Reliable, a writer
// counts once it has told with which sample the reader begins. Samples that it writes
// afterwards arrive, or are reported as SampleLost, as far as the reader knows of them. A
// writer that does not answer does not count. A BestEffort match counts when the reader
// learns of the writer, which may not know the reader yet. Errors: why ctx, or the reader,
// has ended.
func (r *Reader[T]) WaitMatched(ctx context.Context, n int) error {
	if err := r.made(); err != nil {
		return err
	}
	if r.ep.over() {
		return r.ep.Err()
	}
	have := 0
	err := r.ep.await(ctx, func() (_ bool, change <-chan struct{}) {
		have, change = r.recv.Matches()
		return have >= n, change
	})
	if err != nil && ctx.Err() != nil {
		return r.topic.unmatched(ctx, "writers", have, n, err)
	}
	return err
}

// Events yields status changes until ctx ends. If the reader or its participant ends first,
// the error is yielded last. While nothing calls Events, the last 256 are kept,
// and losses of one writer in a row are added up.
func (r *Reader[T]) Events(ctx context.Context) iter.Seq2[Event, error] {
	if err := r.made(); err != nil {
		return only[Event](err)
	}
	return r.ep.all(ctx)
}

// Close withdraws the reader. Samples that wait can still be taken. It does not block.
func (r *Reader[T]) Close() {
	if r.made() != nil {
		return
	}
	r.unsubscribeAll()
	r.topic.p.directory.Remove(r.ep.Local)
	r.unsubscribeAll() // from what SetQoS has subscribed to meanwhile
}
