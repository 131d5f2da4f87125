package quorum_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
)

// Renewals that are asked for one by one, as by the locks of a process, share messages.
func TestRenewalsOfManyCallersTravelTogether(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		for name, r := range map[string]register.Register{"voter": f.voters["a"], "client": f.client("x", abc...)} {
			var writes []register.Write
			for i := range 200 {
				writes = append(writes, register.Write{Key: fmt.Sprint(name, i), Value: []byte("1")})
			}
			for i, res := range r.CompareAndSet(soon(t), writes...) {
				writes[i].Old, writes[i].Renewal = res.Version, time.Second
			}
			synctest.Wait()
			for what, do := range map[string]func(w register.Write) error{
				"renewals": func(w register.Write) error { return r.CompareAndSet(soon(t), w)[0].Err },
				"reads": func(w register.Write) error {
					_, err := r.Get(soon(t), w.Key)
					return err
				},
			} {
				before := f.n.messages
				var wg sync.WaitGroup
				for _, w := range writes {
					wg.Go(func() {
						if err := do(w); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				if n := f.n.messages - before; n > 2*10 {
					t.Errorf("%s: 200 %s took %d messages, want those of two questions", name, what, n)
				}
			}
		}
	})
}

// Candidates read the records of locks that are being renewed, on a busy machine each of them
// again and again: that costs the root none of its renewals.
func TestReadsDisturbNoRenewals(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		const lease, locks = 1500 * time.Millisecond, 300
		f.startAll()
		f.n.slow(20 * time.Millisecond)
		var renewed, failed, read atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range locks {
			phase := time.Duration(i) * lease / 4 / locks
			w := register.Write{Key: fmt.Sprint("lock/", i), Value: make([]byte, 100), Nonce: register.NewNonce()}
			w.Old = put(t, f.voters["a"], w)
			all.Go(func() {
				w.Renewal = lease
				for time.Sleep(phase); ctx.Err() == nil; time.Sleep(lease / 4) {
					within, cancel := context.WithTimeout(t.Context(), lease/8)
					w.Nonce = register.NewNonce()
					if res := f.voters["a"].CompareAndSet(within, w)[0]; res.Err != nil {
						failed.Add(1)
						w.Old = get(t, f.voters["a"], w.Key).Version
					} else {
						w.Old = res.Version
						renewed.Add(1)
					}
					cancel()
				}
			})
			for _, candidate := range []string{"b", "c"} {
				all.Go(func() {
					for time.Sleep(phase); ctx.Err() == nil; time.Sleep(lease / 8) {
						within, cancel := context.WithTimeout(t.Context(), lease/8)
						if _, err := f.voters[candidate].Get(within, w.Key); err == nil {
							read.Add(1)
						}
						cancel()
					}
				})
			}
		}
		all.Wait()
		t.Logf("%d renewed, %d failed, %d read", renewed.Load(), failed.Load(), read.Load())
		if failed.Load()*1000 > renewed.Load() || read.Load() < 2*renewed.Load() {
			t.Errorf("%d renewals failed, and %d were made during %d reads", failed.Load(), renewed.Load(), read.Load())
		}
	})
}

// within notes for how long voters are to try what a client asks for.
type within struct {
	mu  sync.Mutex
	all []time.Duration
}

func (w *within) Send(_ string, message []byte) error {
	msg, err := caspaxos.Decode(message)
	if err == nil && msg.Kind == caspaxos.KindRequest {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, time.Duration(msg.Within))
	}
	return err
}

// Voters try no longer than those who share a question wait.
func TestASharedQuestionHasTheDeadlineOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &within{}
		c, err := quorum.NewClient(abc, quorum.Timing{}, w)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 187*time.Millisecond)
		defer cancel()
		c.CompareAndSet(ctx, register.Write{Key: "a", Old: register.Version{Counter: 1, Nonce: 1}, Renewal: 1500 * time.Millisecond})
		if len(w.all) == 0 || w.all[0] > 187*time.Millisecond {
			t.Errorf("voters try for %v", w.all)
		}
	})
}
