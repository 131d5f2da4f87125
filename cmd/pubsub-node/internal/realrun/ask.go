package realrun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
)

// run makes the requests, from that time on, and tells what became of them.
func (m *member) run(ctx context.Context, at time.Time) (*answer, error) {
	begun := time.Now().Add(time.Until(at)) // with a monotonic clock
	ctx, cancel := context.WithDeadlineCause(ctx, begun.Add(m.Lasts), errLasted)
	defer cancel()
	var mu sync.Mutex
	a := new(answer)
	var failed error
	note := func(o *plan.Outcome, lost bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if o != nil {
			a.Outcomes = append(a.Outcomes, *o)
		}
		if lost {
			a.Lost++
		}
		if err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		due := begun
		for i := range m.Loop {
			if due = due.Add(m.Loop[i].After); !sleep(ctx, time.Until(due)) {
				return
			}
			note(m.ask(ctx, &m.Loop[i], begun))
			due = time.Now()
		}
		if len(m.Loop) > 0 && sleep(ctx, 0) {
			note(nil, false, fmt.Errorf("%d requests were not enough for %v", len(m.Loop), m.Lasts))
		}
	})
	asking.Go(func() {
		for i := range m.Clock {
			if !sleep(ctx, time.Until(begun.Add(m.Clock[i].After))) {
				return
			}
			asking.Go(func() { note(m.ask(ctx, &m.Clock[i], begun)) })
		}
	})
	sleep(ctx, time.Until(begun))
	delays, err := m.measure(ctx, begun)
	note(nil, false, err)
	asking.Wait()
	a.Delays = delays
	if failed == nil && !errors.Is(context.Cause(ctx), errLasted) {
		failed = context.Cause(ctx)
	}
	return a, failed
}

// errLasted ends a run.
var errLasted = errors.New("the run has lasted as long as it should")

// ask makes one request, stays inside and leaves. A request that still waits when the run
// ends is an outcome, too.
func (m *member) ask(ctx context.Context, r *asking, begun time.Time) (o *plan.Outcome, lost bool, err error) {
	asked := time.Now()
	o = &plan.Outcome{Priority: r.Priority, Asked: protocol.Time(asked.Sub(begun)), Within: protocol.Duration(r.Within)}
	opts := []qosmutex.LockOption{qosmutex.WithHold(r.Hold)}
	if r.Fixed {
		opts = append(opts, qosmutex.WithPriority(r.Priority))
	}
	waiting := ctx
	if r.Within > 0 {
		opts = append(opts, qosmutex.WithDeadline(asked.Add(r.Within)))
		if r.GiveUp {
			var cancel context.CancelFunc
			waiting, cancel = context.WithDeadline(ctx, asked.Add(r.Within))
			defer cancel()
		}
	}
	h, err := m.topic.Lock(waiting, r.Resource, opts...)
	entered := time.Now()
	o.At = protocol.Time(entered.Sub(begun))
	switch {
	case err == nil:
		o.End = plan.Entered
	case errors.Is(err, qosmutex.ErrDeadlineUnattainable):
		o.End = plan.Refused
		return o, false, nil
	case ctx.Err() != nil:
		return o, false, nil
	case errors.Is(err, qosmutex.ErrDeadlineMissed), waiting.Err() != nil:
		o.End = plan.Missed
		return o, false, nil
	default:
		return o, false, err
	}
	stay, leave := context.WithCancel(h.Context())
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	sleep(stay, time.Until(entered.Add(r.Hold)))
	err = h.Unlock()
	return o, err != nil && ctx.Err() == nil, nil
}

// late is by how much the timers of Go may be late, and some more.
const late = 2 * time.Millisecond

// sleep waits that long, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	due := time.Now().Add(d)
	if d > late {
		timer := time.NewTimer(d - late)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for left := time.Until(due); left > 0 && ctx.Err() == nil; left = time.Until(due) {
		rest(left)
	}
	return ctx.Err() == nil
}
