package quorum_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
	"padme/tests/bubble"
)

// listener notes who is sent what, in order.
type listener struct {
	mu   sync.Mutex
	sent []string // "to kind"
}

func (l *listener) Send(to string, message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, fmt.Sprint(to, " ", caspaxos.KindOf(message)))
	return nil
}

func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

func (l *listener) count(what string) (n int) {
	for _, s := range l.all() {
		if s == what {
			n++
		}
	}
	return n
}

// lone is a voter that decides alone, and whose disk can be held up.
type lone struct {
	*quorum.Voter
	listener
	held atomic.Bool
	gate chan struct{}
	seq  int // of the last request
}

func startLone(t *testing.T) *lone {
	t.Helper()
	v := startWith(t, quorum.Options{Voters: []string{"a"}})
	settle()
	return v
}

// startWith starts voter a with these options.
func startWith(t *testing.T, o quorum.Options) *lone {
	t.Helper()
	v := &lone{gate: make(chan struct{})}
	disk := &quorum.MemoryDisk{Before: func() {
		if v.held.Load() {
			<-v.gate
		}
	}}
	if o.Self = "a"; o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	started, err := quorum.StartOn(o, v, disk, 1)
	if err != nil {
		t.Fatal(err)
	}
	v.Voter = started
	t.Cleanup(func() { _ = started.Close() })
	return v
}

// hold has the voter wait for its disk until the gate is closed.
func (v *lone) hold() {
	v.held.Store(true)
	v.seq++
	v.request("nobody", v.seq, caspaxos.Message{Writes: []register.Write{{Key: fmt.Sprint("held up ", v.seq), Nonce: 1}}})
	synctest.Wait()
}

func (v *lone) request(from string, seq int, msg caspaxos.Message) {
	msg.Kind, msg.Seq, msg.Within = caspaxos.KindRequest, uint64(seq), cmp.Or(msg.Within, caspaxos.Time(10*time.Second))
	v.Receive(from, caspaxos.AppendMessage(nil, &msg))
}

// TestWhoFloodsWaitsForItself: a request is answered soon, whether five hundred of another
// participant came before it, which all wait their turn, or ten thousand.
func TestWhoFloodsWaitsForItself(t *testing.T) {
	for _, flood := range []int{500, 10_000} {
		bubble.Test(t, func(t *testing.T) {
			v := startLone(t)
			v.hold()
			for i := range flood {
				v.request("mallory", i, caspaxos.Message{Keys: []string{"crane"}})
			}
			v.request("alice", 1, caspaxos.Message{Keys: []string{"crane"}})
			close(v.gate)
			settle()
			sent := v.all()
			i := slices.Index(sent, "alice Reply")
			if i < 0 {
				t.Fatalf("alice is not answered, but %d others are", len(sent))
			}
			if n := len(sent[:i]); n > 20 {
				t.Errorf("%d messages were sent before alice is answered", n)
			}
			time.Sleep(2 * time.Second)
			if n := v.count("mallory Reply"); n < 500 {
				t.Errorf("mallory, who floods it no more, is answered %d times", n)
			}
		})
	}
}

// TestLargeReadsArePaced: whoever has a voter send 64 KB with each short request has so many
// of them answered in a second, and others meanwhile as soon as they ask.
func TestLargeReadsArePaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := startLone(t)
		put(t, v, register.Write{Key: "large", Value: make([]byte, register.MaxValue)})
		for i := range 1000 {
			v.request("mallory", i, caspaxos.Message{Keys: []string{"large"}})
		}
		for i := range 100 {
			v.request("alice", i, caspaxos.Message{Keys: []string{"crane"}})
			time.Sleep(time.Millisecond)
			if n := v.count("alice Reply"); n != i+1 {
				t.Fatalf("of %d requests of alice %d are answered", i+1, n)
			}
		}
		time.Sleep(900 * time.Millisecond)
		if n := v.count("mallory Reply"); n < 75 || n > 135 {
			t.Errorf("mallory was sent 64 KB %d times in a second", n)
		}
	})
}

// TestReportsArePaced: questions about the voter itself are answered beside the line.
func TestReportsArePaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := startLone(t)
		v.hold()
		question := caspaxos.AppendMessage(nil, &caspaxos.Message{Kind: caspaxos.KindInquire, Seq: 1})
		for range 10_000 {
			v.Receive("mallory", question)
		}
		v.Receive("alice", question)
		if m, a := v.count("mallory Report"), v.count("alice Report"); m > 200 || a != 1 {
			t.Errorf("mallory has %d reports, alice %d", m, a)
		}
		close(v.gate)
	})
}

// TestRootOfAThousandLocks: a participant that is no voter, and the root of as many locks as a
// server has open, renews their records in time.
func TestRootOfAThousandLocks(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		const lease = 1500 * time.Millisecond
		f.startAll()
		x := f.client("x", abc...)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var longest atomic.Int64
		for i := range thousand {
			all.Go(func() {
				w := register.Write{Key: fmt.Sprint("lock/", i), Value: make([]byte, 300), Nonce: register.NewNonce()}
				begun, patience := time.Now(), lease/8 // as the keeper of a record does
				for ctx.Err() == nil {
					within, cancel := context.WithTimeout(ctx, patience)
					asked := time.Now()
					res := x.CompareAndSet(within, w)[0]
					cancel()
					if patience = lease / 8; time.Since(asked) >= patience {
						patience *= 2
					}
					if longest.Store(max(longest.Load(), int64(time.Since(begun)))); res.Err != nil {
						continue
					}
					w.Old, w.Nonce, w.Renewal = res.Version, register.NewNonce(), lease
					begun = asked
					time.Sleep(time.Until(asked.Add(lease / 4)))
				}
			})
		}
		all.Wait()
		if long := time.Duration(longest.Load()); long > lease {
			t.Errorf("a record was not renewed for %v", long)
		}
	})
}
