package pubsub

import (
	"context"
	"fmt"
	"slices"
)

// The policies that DDS calls changeable (1.4, 2.2.3) change while samples flow. Who
// still matches notices nothing. A match that a change ends is over as if the peer had
// been closed, and one that comes again later is a new one.

// fixed names the first policy that differs and cannot be changed, "" for none.
func (q *QoS) fixed(to *QoS) string {
	for _, p := range []struct {
		policy  string
		changes bool
	}{
		{"RELIABILITY", q.Reliability != to.Reliability || q.MaxBlocking != to.MaxBlocking},
		{"DURABILITY", q.Durability != to.Durability},
		{"DURABILITY_SERVICE", q.DurabilityService != to.DurabilityService},
		{"HISTORY", q.History != to.History || q.Depth != to.Depth},
		{"RESOURCE_LIMITS", q.MaxSamples != to.MaxSamples || q.MaxInstances != to.MaxInstances},
		{"LIVELINESS", q.Liveliness != to.Liveliness || q.LivelinessLease != to.LivelinessLease},
		{"OWNERSHIP", q.Exclusive != to.Exclusive},
		{"DESTINATION_ORDER", q.BySourceTime != to.BySourceTime},
		{"TYPE_CONSISTENCY", q.AllowCompatible != to.AllowCompatible},
	} {
		if p.changes {
			return p.policy
		}
	}
	return ""
}

// own returns a copy that shares no memory.
func (q QoS) own() QoS {
	q.Partition = slices.Clone(q.Partition)
	return q
}

// changeable returns the policies to have after a change, or why they cannot be had.
func (q *QoS) changeable(to QoS, check func(*QoS) error) (QoS, error) {
	to = to.own()
	err := to.validate()
	if err == nil {
		err = check(&to)
	}
	if policy := q.fixed(&to); err == nil && policy != "" {
		err = fmt.Errorf("%w: %s cannot be changed: close it and make another one", ErrInvalid, policy)
	}
	return to, err
}

// QoS returns the policies as they are, with defaults filled in.
func (w *Writer[T]) QoS() QoS {
	if w.made() != nil {
		return QoS{}
	}
	return w.ep.qos.Load().own()
}

// SetQoS changes Deadline, Lifespan, Strength and Partition; all else must be as it is,
// zero values for defaults included. It does not block. Readers hear of it soon, offline
// after the reconnection.
//
// Strength and Lifespan are those of what is written from then on, in order: a sample counts
// with the Strength that the writer had when it wrote it, even if a reader hears of the
// change earlier or later. The periods of a Deadline begin with the change.
//
// Readers that do not match any more get what is on its way to them, and SampleLost for
// what is not: call WaitAcked before if it must arrive. They may get some of what is written
// right after the change, too. A reader that comes to match gets what a late joiner gets: a
// Volatile one what is written once WaitMatched has returned. For one that matches before
// and after nothing is lost.
//
// A Transient writer takes along what the broker keeps of it. What earlier incarnations of
// its participant have left in the partition to which it moves is not known: Dispose leaves it.
//
// Errors, with which nothing has changed: ErrInvalid, which names the policy, ErrTooLarge,
// ErrUnsupportedQoS, ErrClosed.
func (w *Writer[T]) SetQoS(q QoS) error {
	if err := w.made(); err != nil {
		return err
	}
	q, err := w.qos.changeable(q, (*QoS).checkWriter)
	if err == nil {
		err = w.topic.p.exchange.change(w.ep, q)
	}
	if err != nil {
		return fmt.Errorf("pubsub: policies of the writer of topic %q: %w", w.topic.name, err)
	}
	return nil
}

// QoS returns the policies as they are, with defaults filled in.
func (r *Reader[T]) QoS() QoS {
	if r.made() != nil {
		return QoS{}
	}
	return r.ep.qos.Load().own()
}

// SetQoS changes Deadline, Partition and TimeBasedFilter; all else must be as it is, zero
// values for defaults included. If the reader comes to partitions that it does not
// subscribe to, SetQoS blocks until samples can arrive from there, or ctx ends. Calls
// take effect one after the other.
//
// Of writers that do not match any more nothing further comes; what waits can still be
// taken. Of one that comes to match, and of what Transient writers that are gone have left
// in a partition, the reader gets what a late joiner gets, also if it got that before it
// moved away. Of a writer that matches before and after nothing is lost. The periods of a
// Deadline begin with the change.
//
// Errors, with which nothing has changed: ErrInvalid, which names the policy, ErrTooLarge,
// ErrUnsupportedQoS, ErrRefused, ErrClosed, why ctx ended.
func (r *Reader[T]) SetQoS(ctx context.Context, q QoS) error {
	if err := r.made(); err != nil {
		return err
	}
	now := r.QoS()
	q, err := now.changeable(q, (*QoS).checkReader)
	if err == nil {
		err = r.setQoS(ctx, q)
	}
	if err != nil {
		p := r.topic.p
		return fmt.Errorf("pubsub: policies of the reader of topic %q: %w", r.topic.name, p.outage(ctx, p.exchange.data, err))
	}
	return nil
}

func (r *Reader[T]) setQoS(ctx context.Context, q QoS) error {
	if err := r.changing.Take(ctx); err != nil {
		return err
	}
	defer r.changing.Give()
	x := &r.topic.p.exchange
	surveyed := func() {}
	come := r.comesTo(q.Partition)
	if len(come) > 0 {
		r.recv.ReachOut(q.Partition)
	}
	err := r.subscribe(ctx, come)
	if err == nil && q.Durability == Transient && len(come) > 0 {
		surveyed, err = x.survey(ctx, r.topic.name)
	}
	if err == nil {
		err = x.change(r.ep, q)
		surveyed()
	}
	if err != nil {
		r.unsubscribe(come)
		x.p.directory.Settle(r.ep.Local)
		return err
	}
	r.leave(q.Partition)
	if q.Durability == Transient && len(come) > 0 { // as NewReader does
		r.recallSoon()
	}
	return nil
}

// change gives an endpoint other policies, all of which it can have.
func (x *exchange) change(l *localEndpoint, q QoS) error {
	return x.p.directory.Change(l.Local, q.offer(), func(change uint64) {
		to := q.delivery()
		to.Change = change
		l.qos.Store(&q)
		l.core.Adapt(to)
	})
}
