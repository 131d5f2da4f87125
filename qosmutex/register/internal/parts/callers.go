package parts

import (
	"context"
	"errors"
	"slices"
	"time"

	"padme/qosmutex/register"
)

// Callers are those of one register in this process. Renewals and reads that they ask for one
// by one share questions. The zero Callers is ready for use.
type Callers struct {
	renewals shared[register.Write, register.Result]
	reads    shared[string, found]
}

// found is what a read has found.
type found struct {
	entry register.Entry
	err   error
}

// pauseOf is how long after a question with renewals the next one may follow: a small part of
// the eighth of a lease that an answer may take.
func pauseOf(lease time.Duration) time.Duration { return min(lease/64, 100*time.Millisecond) }

// pauseOfReads is the same for reads, which are rare unless a root has died.
const pauseOfReads = 20 * time.Millisecond

// CompareAndSet makes writes like the function of that name. One that is a single renewal is
// made at once if there was no other lately, else with those that come soon.
func (c *Callers) CompareAndSet(ctx context.Context, writes []register.Write, most Limits, ask func(context.Context, []register.Write) ([]register.Result, error)) []register.Result {
	all := func(ctx context.Context, writes []register.Write) []register.Result {
		return CompareAndSet(writes, most, func(some []register.Write) ([]register.Result, error) { return ask(ctx, some) })
	}
	if len(writes) != 1 || writes[0].Renewal <= 0 {
		return all(ctx, writes)
	}
	if err := ctx.Err(); err != nil {
		return []register.Result{{Err: &register.Unavailable{Cause: err}}}
	}
	w := writes[0]
	w.Value = slices.Clone(w.Value) // the question may outlive this call
	r, ok := c.renewals.ask(ctx, w, w.Key, kind[register.Write, register.Result]{pauseOf(w.Renewal), most.Writes, all})
	if !ok {
		r.Err = &register.Unavailable{Unknown: true, Cause: ctx.Err()}
	}
	r.Err = ofCaller(ctx, r.Err)
	return []register.Result{r}
}

// Get reads a key: at once if none was read lately, else with those that are read soon. ask
// reads several, and answers ErrLarge if their values do not fit into one answer.
func (c *Callers) Get(ctx context.Context, key string, most Limits, ask func(context.Context, []string) ([]register.Entry, error)) (register.Entry, error) {
	if err := register.CheckKey(key); err != nil {
		return register.Entry{}, err
	}
	if err := ctx.Err(); err != nil {
		return register.Entry{}, &register.Unavailable{Cause: err}
	}
	f, ok := c.reads.ask(ctx, key, key, kind[string, found]{pauseOfReads, most.Writes, func(ctx context.Context, keys []string) []found {
		return read(keys, func(keys []string) ([]register.Entry, error) { return ask(ctx, keys) })
	}})
	if !ok {
		f.err = &register.Unavailable{Cause: ctx.Err()}
	}
	return f.entry, ofCaller(ctx, f.err)
}

// read asks for keys, and in halves if that is too large.
func read(keys []string, ask func([]string) ([]register.Entry, error)) []found {
	entries, err := ask(keys)
	if half := len(keys) / 2; half > 0 && errors.Is(err, ErrLarge) {
		return append(read(keys[:half], ask), read(keys[half:], ask)...)
	}
	all := make([]found, len(keys))
	for i := range all {
		if all[i].err = err; err == nil {
			all[i].entry = entries[i]
		}
	}
	return all
}

// ofCaller is an error of a question as that of one of its callers.
func ofCaller(ctx context.Context, err error) error {
	var u *register.Unavailable
	if ctx.Err() == nil || !errors.As(err, &u) {
		return err
	}
	mine := *u
	mine.Cause = ctx.Err()
	return &mine
}
