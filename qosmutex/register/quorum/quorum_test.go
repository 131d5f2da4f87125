package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/bubble"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/registertest"
)

func TestContract(t *testing.T) {
	t.Run("OneVoter", func(t *testing.T) {
		t.Parallel()
		registertest.Run(t, func(t *testing.T) register.Register { return newFleet(t, 1).start("a", "a") })
	})
	t.Run("Voter", func(t *testing.T) {
		t.Parallel()
		registertest.Run(t, func(t *testing.T) register.Register {
			f := newFleet(t, 1)
			for _, id := range abc {
				f.start(id, abc...)
			}
			return f.voters["b"]
		})
	})
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		registertest.Run(t, func(t *testing.T) register.Register {
			f := newFleet(t, 1)
			for _, id := range abc {
				f.start(id, abc...)
			}
			return f.client("x", abc...)
		})
	})
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of virtual time
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, r register.Register, w register.Write) register.Version {
	t.Helper()
	res := r.CompareAndSet(soon(t), w)[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Version
}

func get(t *testing.T, r register.Register, key string) register.Entry {
	t.Helper()
	e, err := r.Get(soon(t), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// startAll starts a, b and c in a bubble, and waits until they vote.
func (f *fleet) startAll() {
	f.t.Helper()
	for _, id := range abc {
		f.start(id, abc...)
	}
	settle()
}

// settle waits until all voters have enrolled and have taken what the others sent. Two
// of three are a majority: what is done with them alone leaves nothing with the third.
func settle() { time.Sleep(time.Second) }

// unavailable checks that a register does not answer, and whom it misses.
func unavailable(t *testing.T, r register.Register, missing string) {
	t.Helper()
	_, err := r.Get(soon(t), "crane")
	var u *register.Unavailable
	if !errors.As(err, &u) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, register.ErrUnknown) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if got := strings.Join(u.Missing, " "); got != missing {
		t.Errorf("missing %q, want %q", got, missing)
	}
}

// virtual runs a test in virtual time. It fails if a goroutine is left.
func virtual(t *testing.T, seed uint64, test func(t *testing.T, f *fleet)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { test(t, newFleet(t, seed)) })
}

func TestNothingIsAnsweredBeforeAllHaveEnrolled(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		a := f.start("a", abc...)
		f.start("c", abc...)
		unavailable(t, a, "b")
		b := f.start("b", abc...)
		v := put(t, b, register.Write{Key: "crane", Value: []byte("1")})
		if e := get(t, a, "crane"); e.Version != v || string(e.Value) != "1" {
			t.Errorf("%q at %v", e.Value, e.Version)
		}
	})
}

func TestMajorityDecides(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		x := f.client("x", abc...)
		v := put(t, x, register.Write{Key: "crane", Value: []byte("1")})
		f.kill("a")
		v = put(t, x, register.Write{Key: "crane", Old: v, Value: []byte("2")})
		v = put(t, f.voters["c"], register.Write{Key: "crane", Old: v, Value: []byte("3")})
		f.kill("b")
		unavailable(t, f.voters["c"], "a b")
		unavailable(t, x, "a b")
		res := f.voters["c"].CompareAndSet(soon(t), register.Write{Key: "crane", Old: v, Value: []byte("4")})
		if !errors.Is(res[0].Err, register.ErrUnavailable) || errors.Is(res[0].Err, register.ErrUnknown) {
			t.Errorf("nobody has promised anything, but the outcome is %v", res[0].Err)
		}
		res = x.CompareAndSet(soon(t), register.Write{Key: "crane", Old: v, Value: []byte("5")})
		if !errors.Is(res[0].Err, register.ErrUnavailable) || !errors.Is(res[0].Err, register.ErrUnknown) {
			t.Errorf("a request may still be on its way, but the outcome is %v", res[0].Err)
		}
		f.start("b", abc...)
		if e := get(t, x, "crane"); string(e.Value) != "3" && string(e.Value) != "5" {
			t.Errorf("%q at %v", e.Value, e.Version)
		}
	})
}

// An accept that only one voter has heard of: the outcome is unknown, and the writer
// finds out by repeating the write.
func TestUnknownOutcomeIsSettledByRepeating(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		a := f.voters["a"]
		v := put(t, a, register.Write{Key: "crane", Value: []byte("1")})
		w := register.Write{Key: "crane", Old: v, Value: []byte("2"), Nonce: 99}
		done := make(chan register.Result)
		for _, id := range []string{"b", "c"} { // a alone accepts
			v := f.voters[id]
			f.n.attach(id, func(from string, b []byte) {
				if msg, err := caspaxos.Decode(b); err != nil || msg.Kind != caspaxos.KindAccept {
					v.Receive(from, b)
				}
			})
		}
		go func() { done <- a.CompareAndSet(soon(t), w)[0] }()
		if res := <-done; !errors.Is(res.Err, register.ErrUnknown) || !errors.Is(res.Err, register.ErrUnavailable) {
			t.Fatalf("got %v", res.Err)
		}
		for _, id := range []string{"b", "c"} {
			f.n.attach(id, f.voters[id].Receive)
		}
		again := put(t, a, w)
		if again.Nonce != 99 || again.Counter != 2 {
			t.Errorf("repeated: %v", again)
		}
	})
}

// Voters need not agree on what they spare the disk: each keeps what it would forget too
// early.
func TestVotersWithDifferentLeases(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		leases := map[string]time.Duration{"a": time.Second, "b": time.Hour, "c": 2 * time.Second}
		start := func() {
			for _, id := range abc {
				f.lease = leases[id]
				f.start(id, abc...)
			}
		}
		start()
		v := put(t, f.voters["b"], register.Write{Key: "crane", Value: []byte("1")})
		renewed := put(t, f.voters["b"], register.Write{Key: "crane", Old: v, Value: []byte("2"), Renewal: time.Minute})
		for _, id := range abc {
			f.kill(id)
		}
		start()
		if e := get(t, f.voters["b"], "crane"); e.Version != renewed {
			t.Errorf("%q at %v", e.Value, e.Version)
		}
	})
}

func TestRenewalsAreNotSynced(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		settle()
		sizes := func() (n int64) {
			for _, id := range abc {
				st, err := os.Stat(f.file(id))
				if err != nil {
					t.Fatal(err)
				}
				n += st.Size()
			}
			return n
		}
		before := sizes()
		for range 200 {
			v = put(t, f.voters["a"], register.Write{Key: "crane", Old: v, Value: []byte("1"), Renewal: time.Millisecond})
		}
		if after := sizes(); after != before {
			t.Errorf("200 renewals wrote %d bytes", after-before)
		}
		put(t, f.voters["b"], register.Write{Key: "crane", Old: v, Value: []byte("2")})
		if sizes() == before {
			t.Error("a write was not written")
		}
	})
}

// Many renewals travel in one message to each voter and back.
func TestWritesTravelTogether(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		var writes []register.Write
		for i := range 200 {
			writes = append(writes, register.Write{Key: fmt.Sprint("k", i), Value: []byte("1")})
		}
		for i, res := range f.voters["a"].CompareAndSet(soon(t), writes...) {
			writes[i].Old, writes[i].Renewal = res.Version, time.Millisecond
		}
		synctest.Wait()
		before := f.n.messages
		for _, res := range f.voters["a"].CompareAndSet(soon(t), writes...) {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		synctest.Wait()
		if n := f.n.messages - before; n != 8 {
			t.Errorf("200 renewals took %d messages, want a question and an answer in two phases to two voters", n)
		}
	})
}

// A root gives each question an eighth of its lease, less than a client waits for a voter
// before it asks the next one.
func TestClientWithLittlePatienceLeavesADeadVoter(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		x := f.client("x", abc...)
		get(t, x, "crane")
		f.kill("a") // which it asks first
		var err error
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 187*time.Millisecond)
			_, err = x.Get(ctx, "crane")
			cancel()
		}
		if err != nil {
			t.Errorf("after five questions: %v", err)
		}
	})
}

// Values that are too large for one message are read and written in parts.
func TestLargeValuesAreAskedInParts(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		for name, r := range map[string]register.Register{"voter": f.voters["a"], "client": f.client("x", abc...)} {
			var writes []register.Write
			for i := range 20 {
				writes = append(writes, register.Write{Key: fmt.Sprint(name, i), Value: bytes.Repeat([]byte("x"), register.MaxValue)})
			}
			for i, res := range r.CompareAndSet(soon(t), writes...) {
				writes[i].Old, writes[i].Value = res.Version, []byte("small")
			}
			for i, res := range r.CompareAndSet(soon(t), writes...) { // small, but they replace large ones
				if res.Err != nil || res.Version.Counter != 2 {
					t.Errorf("%s: write %d: %v", name, i, res)
				}
			}
		}
	})
}
