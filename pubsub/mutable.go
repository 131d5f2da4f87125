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

// SetQoS changes Deadline, Lifespan, Strength and Partition. Everything else must stay as
// it is, including zero values for defaults. It does not block. Readers learn of the change
// soon, or after the reconnection if the writer is offline.
//
// Strength and Lifespan apply to what is written from then on, in order: a sample counts
// with the Strength that the writer had when it wrote it, even if a reader learns of the
// change earlier or later. The periods of a Deadline start again with the change.
//
// Readers that no longer match get samples in transit, and SampleLost for the others: call
// WaitAcked first if they must arrive. They may also get some samples that are written
// right after the change. A reader that newly matches gets what a late joiner gets; a
// Volatile one gets what is written once WaitMatched has returned. Nothing is lost for a
// reader that matches before and after.
//
// For a Transient writer, what the broker retains of it moves with it. What earlier
// incarnations of its participant have left in the new partition is unknown to it, so
// Dispose leaves it there.
//
// Errors, after which nothing has changed: ErrInvalid, which names the policy, ErrTooLarge,
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

// SetQoS changes Deadline, Partition and TimeBasedFilter. Everything else must stay as it
// is, including zero values for defaults. If the reader enters partitions to which it has
// not subscribed, SetQoS blocks until samples can arrive from there, or ctx ends. Calls
// take effect one after the other.
//
// Writers that no longer match deliver nothing further; samples that wait can still be
// taken. From a writer that newly matches, and from Transient writers that are gone and
// left samples in a partition, the reader gets what a late joiner gets, even if it got that
// before it moved away. Nothing is lost of a writer that matches before and after. The
// periods of a Deadline start again with the change.
//
// Errors, after which nothing has changed: ErrInvalid, which names the policy, ErrTooLarge,
// ErrUnsupportedQoS, ErrRefused, ErrClosed, and why ctx ended.
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
