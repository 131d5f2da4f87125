package parts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/internal/parts"
)

// asked is a register that takes a while, and notes its questions.
type asked struct {
	callers parts.Callers
	takes   time.Duration

	mu        sync.Mutex
	questions [][]string // keys
	ended     int        // by their contexts
}

func (a *asked) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	return a.callers.CompareAndSet(ctx, writes, parts.Limits{Writes: 1000, Bytes: 1 << 20}, func(ctx context.Context, some []register.Write) ([]register.Result, error) {
		var keys []string
		results := make([]register.Result, len(some))
		for i := range some {
			keys = append(keys, some[i].Key)
			results[i].Version = some[i].Old.Next(register.Domain{}, some[i].Nonce)
		}
		a.mu.Lock()
		a.questions = append(a.questions, keys)
		a.mu.Unlock()
		select {
		case <-time.After(a.takes):
			return results, nil
		case <-ctx.Done():
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ended++
			return nil, &register.Unavailable{Missing: []string{"v2"}, Unknown: true, Cause: ctx.Err()}
		}
	})
}

func renewal(key string, nonce uint64) register.Write {
	return register.Write{Key: key, Old: register.Version{Counter: 7, Nonce: 1}, Value: []byte(key), Nonce: nonce, Renewal: 1500 * time.Millisecond}
}

// The root of many locks asks a few questions a second, however many locks there are.
func TestRenewalsShareQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks, rounds = 300, 8
		a := &asked{takes: time.Millisecond}
		var wg sync.WaitGroup
		for i := range locks {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 375 * time.Millisecond / locks)
				for n := range uint64(rounds) {
					begun := time.Now()
					r := a.CompareAndSet(t.Context(), renewal(fmt.Sprint("lock", i), n+1))[0]
					if want := (register.Version{Counter: 8, Nonce: n + 1}); r.Err != nil || r.Version != want {
						t.Errorf("lock %d: %v, want version %v", i, r, want)
					}
					if took := time.Since(begun); took > 30*time.Millisecond {
						t.Errorf("a renewal took %v", took)
					}
					time.Sleep(375 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		made := 0
		for _, q := range a.questions {
			made += len(q)
		}
		if most := rounds*(375+30)*64/1500 + 20; len(a.questions) > most || made != locks*rounds {
			t.Errorf("%d questions with %d renewals, want at most %d with %d", len(a.questions), made, most, locks*rounds)
		}
	})
}

// A single renewal does not wait for others, nor does a write that is no renewal.
func TestOneRenewalIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		begun := time.Now()
		for range 5 {
			a.CompareAndSet(t.Context(), renewal("a", 1))
			w := renewal("b", 2)
			w.Renewal = 0
			a.CompareAndSet(t.Context(), w)
			if took := time.Since(begun); took != 0 {
				t.Errorf("it took %v", took)
			}
			time.Sleep(375 * time.Millisecond)
			begun = time.Now()
		}
	})
}

// Each caller waits for as long as it likes; a question ends with the last one, and says who
// was missing.
func TestACallerOfASharedQuestionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{takes: 100 * time.Millisecond}
		var wg sync.WaitGroup
		ask := func(key string, patience time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				begun := time.Now()
				r := a.CompareAndSet(ctx, renewal(key, 1))[0]
				if !errors.Is(r.Err, want) {
					t.Errorf("%s: %v, want %v", key, r.Err, want)
				}
				if took := time.Since(begun); took > patience+50*time.Millisecond {
					t.Errorf("%s took %v", key, took)
				}
				var u *register.Unavailable
				if key == "lonely" && (!errors.As(r.Err, &u) || !slices.Equal(u.Missing, []string{"v2"}) || !u.Unknown) {
					t.Errorf("%s: %v does not say who was missing", key, r.Err)
				}
			})
			synctest.Wait()
		}
		ask("first", time.Second, nil)
		ask("patient", time.Second, nil)
		ask("impatient", 50*time.Millisecond, context.DeadlineExceeded)
		wg.Wait()
		if a.ended != 0 {
			t.Errorf("%d questions ended for one caller who left", a.ended)
		}
		time.Sleep(time.Second)
		ask("lonely", 50*time.Millisecond, context.DeadlineExceeded)
		wg.Wait()
		if a.ended != 1 {
			t.Errorf("%d questions ended when all callers had left, want 1", a.ended)
		}
	})
}

// A write that is repeated while its first question still waits is asked in another one.
func TestAKeyIsInAQuestionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		a.CompareAndSet(t.Context(), renewal("a", 1))
		var wg sync.WaitGroup
		for n := range uint64(3) {
			wg.Go(func() {
				if r := a.CompareAndSet(t.Context(), renewal("b", n+1))[0]; r.Version.Nonce != n+1 {
					t.Errorf("renewal %d: %v", n+1, r)
				}
			})
		}
		wg.Wait()
		if len(a.questions) != 4 {
			t.Errorf("questions %v, want four with one key each", a.questions)
		}
	})
}

// The value of a write is what it was when the write was asked for, though the question is
// asked when the caller has gone.
func TestAQuestionKeepsWhatItWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		wrote := map[string]string{}
		var c parts.Callers
		ask := func(ctx context.Context, w register.Write) {
			c.CompareAndSet(ctx, []register.Write{w}, parts.Limits{Writes: 10, Bytes: 1000}, func(_ context.Context, some []register.Write) ([]register.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, w := range some {
					wrote[w.Key] = string(w.Value)
				}
				return make([]register.Result, len(some)), nil
			})
		}
		var wg sync.WaitGroup
		for n := range uint64(6) { // so that the last one waits for a while
			wg.Go(func() { ask(t.Context(), renewal("a", n+1)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		w := renewal("b", 1)
		w.Value = []byte("before")
		ask(ctx, w)
		copy(w.Value, "after!")
		wg.Wait()
		if wrote["b"] != "before" {
			t.Errorf("wrote %q", wrote["b"])
		}
	})
}

// More than fit into a question make several, which are asked at the same time.
func TestManyRenewalsMakeSeveralQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{takes: 50 * time.Millisecond}
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 2500 {
			wg.Go(func() { a.CompareAndSet(t.Context(), renewal(fmt.Sprint(i), 1)) })
		}
		wg.Wait()
		if took := time.Since(begun); len(a.questions) > 4 || took > 80*time.Millisecond {
			t.Errorf("%d questions in %v, want three or four, the last ones at once", len(a.questions), took)
		}
	})
}
