package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/internal/parts"
)

// Age returns for how long the voter has known that all voters are enrolled.
func (v *Voter) Age() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.enrolled.IsZero() {
		return 0
	}
	return time.Since(v.enrolled)
}

// Get returns the current value and version of a key. Calls that follow each other closely
// share messages.
func (v *Voter) Get(ctx context.Context, key string) (register.Entry, error) {
	return v.callers.Get(ctx, key, limits, func(ctx context.Context, keys []string) ([]register.Entry, error) {
		a := v.ask(ctx, caspaxos.Input{Kind: caspaxos.Ask, Keys: keys})
		if errors.Is(a.Err, caspaxos.ErrLarge) {
			return nil, parts.ErrLarge
		}
		return a.Entries, a.Err
	})
}

// CompareAndSet makes writes. Those of different keys share messages and syncs, and single
// renewals of calls that follow each other closely do, too.
func (v *Voter) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	return v.callers.CompareAndSet(ctx, writes, limits, func(ctx context.Context, some []register.Write) ([]register.Result, error) {
		a := v.ask(ctx, caspaxos.Input{Kind: caspaxos.Ask, Writes: some})
		if errors.Is(a.Err, caspaxos.ErrLarge) {
			return nil, parts.ErrLarge
		}
		return a.Results, a.Err
	})
}

// limits are those of a message.
var limits = parts.Limits{Writes: caspaxos.MaxBatch, Bytes: caspaxos.MaxBytes}

// Replace has one voter take the place of another, which is usually gone for good. The
// new one must be running, with an empty file and the list of voters that there shall
// be; it may have the name of the old one. It returns once the replacement is decided
// and this voter votes with the others, whose Status says when they do. Until then no
// voter that was left may be taken away, too.
func (v *Voter) Replace(ctx context.Context, old, by string) error {
	if err := v.ask(ctx, caspaxos.Input{Kind: caspaxos.Replace, Old: old, New: by}).Err; err != nil {
		return err
	}
	ticker := time.NewTicker(v.opts.Timing.Resend)
	defer ticker.Stop()
	for v.Status().Phase != caspaxos.Voting {
		select {
		case <-ticker.C:
		case <-v.stopped:
			return &register.Unavailable{Unknown: true, Cause: v.ended()}
		case <-ctx.Done():
			return &register.Unavailable{Missing: v.Status().Missing, Unknown: true, Cause: ctx.Err()}
		}
	}
	return nil
}

// grace is how long a call waits for the machine after its context has ended.
const grace = time.Second

// ask puts a question to the machine and waits.
func (v *Voter) ask(ctx context.Context, in caspaxos.Input) caspaxos.Answer {
	unavailable := func(unknown bool, cause error) caspaxos.Answer {
		return caspaxos.Answer{Err: &register.Unavailable{Unknown: unknown && len(in.Keys) == 0, Cause: cause}}
	}
	if err := ctx.Err(); err != nil {
		return unavailable(false, err)
	}
	answer := make(chan caspaxos.Answer, 1)
	v.mu.Lock()
	v.lastSeq++
	in.Seq = v.lastSeq
	v.waiting[in.Seq] = answer
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.waiting, in.Seq)
		v.mu.Unlock()
	}()
	select {
	case v.inputs <- in:
	case <-v.stopped:
		return unavailable(false, v.ended())
	case <-ctx.Done():
		return unavailable(false, ctx.Err())
	}
	select {
	case a := <-answer:
		return a
	case <-v.stopped:
		return unavailable(true, v.ended())
	case <-ctx.Done():
	}
	// The machine knows who is missing, and whether the write may have been made.
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case v.inputs <- caspaxos.Input{Kind: caspaxos.Cancel, Seq: in.Seq}:
	case a := <-answer:
		return a
	case <-v.stopped:
		return unavailable(true, v.ended())
	case <-timer.C:
		return unavailable(true, ctx.Err())
	}
	select {
	case a := <-answer:
		var u *register.Unavailable
		switch {
		case !errors.As(a.Err, &u):
		case u.Cause == nil:
			u.Cause = ctx.Err()
		default: // says why nobody has answered in time
			u.Cause = fmt.Errorf("%w: %w", u.Cause, ctx.Err())
		}
		return a
	case <-v.stopped:
		return unavailable(true, v.ended())
	case <-timer.C:
		return unavailable(true, ctx.Err())
	}
}

func (v *Voter) ended() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}
