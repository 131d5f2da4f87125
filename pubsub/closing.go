package pubsub

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"padme/pubsub/internal/reliable"
)

// maxParting bounds the time that a participant which is closed keeps for its
// death, of that which its writers could wait for acknowledgements, and before that the
// time in which late joiners are looked for.
const maxParting = time.Second

// leave ends all endpoints after what they have written is with the broker and with
// their readers, as far as ctx and linger give them time.
func (x *exchange) leave(ctx context.Context) error {
	x.p.directory.Close()
	x.mu.Lock()
	data := x.data
	x.mu.Unlock()
	all := x.endpoints()
	err := lingerAll(ctx, all)
	if data != nil {
		connected, cancel := x.p.main.Connected(ctx)
		_ = data.Flush(connected)
		cancel()
	}
	for _, l := range all {
		x.p.directory.Remove(l.Local)
	}
	return err
}

// meetLateJoiners has writers with a history match the readers that are there by now: a
// writer that ends takes its history along. Who is not found in time may get nothing, as
// if it had come later.
func (x *exchange) meetLateJoiners(ctx context.Context, all ...*localEndpoint) {
	if !slices.ContainsFunc(all, func(l *localEndpoint) bool {
		_, writes := l.core.(*reliable.Sender)
		return writes && l.qos.Load().Durability != Volatile
	}) {
		return
	}
	patience := maxParting
	if end, bounded := ctx.Deadline(); bounded {
		patience = min(time.Until(end)/4, maxParting)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, cancel = x.p.main.Connected(ctx)
	defer cancel()
	_ = x.p.directory.MetAll(ctx)
}

// lingerAll has all writers linger at once. The time that is left when ctx ends is for
// telling others that they are closed.
func lingerAll(ctx context.Context, all []*localEndpoint) error {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(time.Until(end)/4, maxParting)))
		defer cancel()
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, l := range all {
		if s, ok := l.core.(*reliable.Sender); ok {
			wg.Go(func() { errs[i] = s.Linger(ctx, l.ended) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
