package pubsub

import (
	"context"
	"maps"
	"slices"
	"time"

	"padme/pubsub/internal/partition"
)

// leaveAfter is how long a reader still hears a partition that it has left: a writer
// whose pattern reaches it there writes on until it knows where else.
const leaveAfter = time.Second

// subscribe has samples arrive from partitions, which are given as levels.
func (r *Reader[T]) subscribe(ctx context.Context, levels []string) error {
	for _, level := range levels {
		stop, err := r.hear(ctx, level, r.receive)
		if err != nil {
			r.unsubscribe(levels)
			return err
		}
		r.mu.Lock()
		r.subscribed[level] = stop
		r.mu.Unlock()
	}
	return nil
}

func (r *Reader[T]) hear(ctx context.Context, level string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error) {
	p := r.topic.p
	topic, _ := EncodeLevel(r.topic.name) // checked by NewTopic
	return p.subscribe(ctx, p.exchange.data, p.root+"/data/"+level+"/"+topic+"/"+r.key+"/+/+", handler)
}

// recall has the broker deliver what it retains for the reader once more, as it does for
// every subscription: a writer that was closed without having met this reader may have
// written since the first one.
func (r *Reader[T]) recall(ctx context.Context) error {
	r.mu.Lock()
	levels := slices.Sorted(maps.Keys(r.subscribed))
	r.mu.Unlock()
	for _, level := range levels {
		stop, err := r.hear(ctx, level, func(string, []byte, bool) {})
		if err != nil {
			return err
		}
		stop()
	}
	return nil
}

// recallSoon is recall on a goroutine of its own. If a connection is lost meanwhile, the
// next one brings all that is retained.
func (r *Reader[T]) recallSoon() {
	if p := r.topic.p; r.recalling.CompareAndSwap(false, true) {
		p.start(func() {
			r.recalling.Store(false)
			_ = r.recall(p.ctx)
		})
	}
}

func (r *Reader[T]) unsubscribe(levels []string) {
	for _, stop := range r.withdraw(func(level string) bool { return slices.Contains(levels, level) }) {
		stop()
	}
}

func (r *Reader[T]) unsubscribeAll() {
	for _, stop := range r.withdraw(func(string) bool { return true }) {
		stop()
	}
}

// withdraw takes subscriptions out of those that the reader has.
func (r *Reader[T]) withdraw(which func(level string) bool) (stops []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for level, stop := range r.subscribed {
		if which(level) {
			stops = append(stops, stop)
			delete(r.subscribed, level)
		}
	}
	return stops
}

// comesTo returns the levels that a reader must subscribe to for other partitions.
func (r *Reader[T]) comesTo(in partition.List) (levels []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, level := range in.Filters() {
		if r.subscribed[level] == nil {
			levels = append(levels, level)
		}
	}
	return levels
}

// leave ends, after a while, the subscriptions that are not for these partitions.
func (r *Reader[T]) leave(in partition.List) {
	wanted := in.Filters()
	stops := r.withdraw(func(level string) bool { return !slices.Contains(wanted, level) })
	if len(stops) == 0 {
		return
	}
	p := r.topic.p
	p.start(func() {
		timer := time.NewTimer(leaveAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ep.ended:
		case <-p.ctx.Done():
		}
		for _, stop := range stops {
			stop()
		}
	})
}
