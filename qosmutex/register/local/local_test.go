package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/bubble"

	"padme/qosmutex/register"
	"padme/qosmutex/register/journal"
	"padme/qosmutex/register/local"
	"padme/qosmutex/register/registertest"
)

func open(t *testing.T, path string) *local.Register {
	t.Helper()
	r, err := local.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestContract(t *testing.T) {
	t.Run("Memory", func(t *testing.T) {
		registertest.Run(t, func(*testing.T) register.Register { return local.Memory() })
	})
	t.Run("File", func(t *testing.T) {
		registertest.Run(t, func(t *testing.T) register.Register {
			return open(t, filepath.Join(t.TempDir(), "register"))
		})
	})
}

func put(t *testing.T, r register.Register, w register.Write) register.Version {
	t.Helper()
	res := r.CompareAndSet(t.Context(), w)[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Version
}

func get(t *testing.T, r register.Register, key string) register.Entry {
	t.Helper()
	e, err := r.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRestartForgetsRenewalsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r := open(t, path)
	v := put(t, r, register.Write{Key: "crane", Value: []byte("a"), Renewal: time.Millisecond}) // the first write of a key is none
	renewed := put(t, r, register.Write{Key: "crane", Old: v, Value: []byte("b"), Renewal: time.Millisecond})
	lift := put(t, r, register.Write{Key: "lift", Value: []byte("c")})
	lift = put(t, r, register.Write{Key: "lift", Old: lift, Value: []byte("d"), Renewal: time.Millisecond})
	lift = put(t, r, register.Write{Key: "lift", Old: lift, Value: []byte("e")})
	domain := r.Domain()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	r = open(t, path)
	if r.Domain() != domain {
		t.Error("another domain")
	}
	crane := get(t, r, "crane")
	if !renumbered(crane.Version, v) || crane.Version == renewed || string(crane.Value) != "a" {
		t.Errorf("crane is %q at %v", crane.Value, crane.Version)
	}
	if e := get(t, r, "lift"); !renumbered(e.Version, lift) || string(e.Value) != "e" {
		t.Errorf("lift is %q at %v", e.Value, e.Version)
	}
	// Whoever knows only what was before must read first.
	for _, old := range []register.Version{v, renewed} {
		if res := r.CompareAndSet(t.Context(), register.Write{Key: "crane", Old: old, Value: []byte("f")})[0]; !errors.Is(res.Err, register.ErrConflict) {
			t.Errorf("a write that replaces %v: %v, want a conflict", old, res.Err)
		}
	}
	put(t, r, register.Write{Key: "crane", Old: crane.Version, Value: []byte("f")})
}

// renumbered reports whether is is the version that a key has after a restart, if it was
// was before.
func renumbered(is, was register.Version) bool {
	return is.Counter == was.Counter+1 && is.Nonce != was.Nonce && is.Domain == was.Domain
}

func TestRenewalsDoNotGrowTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r := open(t, path)
	v := put(t, r, register.Write{Key: "crane", Value: []byte("a")})
	before := size(t, path)
	for range 100 {
		v = put(t, r, register.Write{Key: "crane", Old: v, Value: []byte("a"), Renewal: time.Millisecond})
	}
	if after := size(t, path); after != before {
		t.Errorf("%d bytes grew to %d", before, after)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r := open(t, path)
	var v register.Version
	value := bytes.Repeat([]byte("x"), register.MaxValue)
	keep := put(t, r, register.Write{Key: "crane", Value: []byte("a")})
	for range 200 { // 12 MB
		v = put(t, r, register.Write{Key: "lift", Old: v, Value: value})
	}
	if n := size(t, path); n > 2<<20 {
		t.Errorf("%d bytes", n)
	}
	_ = r.Close()
	r = open(t, path)
	if e := get(t, r, "crane"); !renumbered(e.Version, keep) || string(e.Value) != "a" {
		t.Errorf("crane is %q at %v", e.Value, e.Version)
	}
	if e := get(t, r, "lift"); !renumbered(e.Version, v) || !bytes.Equal(e.Value, value) {
		t.Errorf("lift is at %v, not %v", e.Version, v)
	}
}

func TestOneProcessOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	open(t, path)
	if _, err := local.Open(path); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
}

func TestClosed(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "register"))
	put(t, r, register.Write{Key: "crane", Value: []byte("a")})
	_ = r.Close()
	if _, err := r.Get(t.Context(), "crane"); !errors.Is(err, register.ErrUnavailable) || !errors.Is(err, register.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	err := r.CompareAndSet(t.Context(), register.Write{Key: "crane"})[0].Err
	if !errors.Is(err, register.ErrClosed) || errors.Is(err, register.ErrUnknown) {
		t.Errorf("write: %v", err)
	}
}

// A disk that is full or broken leaves it unknown what is in the file, and then
// nothing is answered before the file is read again.
func TestDiskFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r := open(t, path)
	v := put(t, r, register.Write{Key: "crane", Value: []byte("a")})
	put(t, r, register.Write{Key: "lift", Value: []byte("a")})
	local.BreakDisk(r)
	res := r.CompareAndSet(t.Context(),
		register.Write{Key: "crane", Old: v, Value: []byte("b")},
		register.Write{Key: "lift", Value: []byte("b")},
		register.Write{Key: ""})
	if !errors.Is(res[0].Err, register.ErrUnavailable) || !errors.Is(res[0].Err, register.ErrUnknown) {
		t.Errorf("the write: %v", res[0].Err)
	}
	if !errors.Is(res[1].Err, register.ErrConflict) || errors.Is(res[1].Err, register.ErrUnknown) {
		t.Errorf("a conflict in the same call: %v", res[1].Err)
	}
	if !errors.Is(res[2].Err, register.ErrInvalid) {
		t.Errorf("an invalid one: %v", res[2].Err)
	}
	if _, err := r.Get(t.Context(), "crane"); !errors.Is(err, register.ErrUnavailable) {
		t.Errorf("a read afterwards: %v", err)
	}
	res = r.CompareAndSet(t.Context(), register.Write{Key: "crane", Old: v, Value: []byte("c")})
	if !errors.Is(res[0].Err, register.ErrUnavailable) || errors.Is(res[0].Err, register.ErrUnknown) {
		t.Errorf("a write afterwards: %v", res[0].Err)
	}
}

// A write that waits for another one gives up with its context.
func TestContextEndsTheWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := local.Memory()
		free := local.Occupy(r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.CompareAndSet(ctx, register.Write{Key: "crane"})[0].Err
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, register.ErrUnknown) {
			t.Errorf("got %v", err)
		}
		free()
		put(t, r, register.Write{Key: "crane"})
	})
}

// Five hundred locks get new roots at once: their records share a sync.
func TestWritesThatWaitShareASync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	bubble.Test(t, func(t *testing.T) {
		r := open(t, path)
		free := local.Occupy(r)
		results := make([]register.Result, 500)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				results[i] = r.CompareAndSet(t.Context(), register.Write{Key: fmt.Sprint("lock/", i%499), Value: []byte("root is A")})[0]
			})
		}
		synctest.Wait()
		if before, after := local.Commit(r); before != 500 || after != 0 {
			t.Errorf("of %d calls %d still wait after one sync", before, after)
		}
		all.Wait()
		free()
		conflicts := 0
		for i, res := range results {
			if errors.Is(res.Err, register.ErrConflict) {
				conflicts++
			} else if e, err := r.Get(t.Context(), fmt.Sprint("lock/", i%499)); res.Err != nil || err != nil || e.Version != res.Version {
				t.Errorf("lock %d: %v, %v", i, res.Err, err)
			}
		}
		if conflicts != 1 { // two of them are of one key
			t.Errorf("%d conflicts", conflicts)
		}
		_ = r.Close()
		e, err := open(t, path).Get(t.Context(), "lock/7")
		if string(e.Value) != "root is A" {
			t.Errorf("after a restart: %q, %v", e.Value, err)
		}
	})
}

// Large records wait for the next sync, so that no frame grows too large.
func TestASyncIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := local.Memory()
		free := local.Occupy(r)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { put(t, r, register.Write{Key: fmt.Sprint(i), Value: make([]byte, register.MaxValue)}) })
		}
		synctest.Wait()
		if before, after := local.Commit(r); before != 100 || after < 70 {
			t.Errorf("of %d calls with %d bytes each %d wait after one sync", before, register.MaxValue, after)
		}
		free()
		all.Wait()
	})
}

// Whoever has another one write for it, and does not wait for that, does not know what comes of it.
func TestContextEndsTheWaitForTheSyncOfAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := local.Memory()
		free := local.Occupy(r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan register.Result)
		go func() { done <- r.CompareAndSet(ctx, register.Write{Key: "crane"})[0] }()
		synctest.Wait()
		local.Take(r)
		cancel()
		if res := <-done; !errors.Is(res.Err, context.Canceled) || !errors.Is(res.Err, register.ErrUnknown) {
			t.Errorf("got %v", res.Err)
		}
		free()
	})
}

// Two calls that are each allowed do not share a frame that is not.
func TestCallsTogetherAreNotTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	bubble.Test(t, func(t *testing.T) {
		r := open(t, path)
		free := local.Occupy(r)
		var all sync.WaitGroup
		writes := func(prefix string, n int) (ws []register.Write) {
			for i := range n {
				ws = append(ws, register.Write{Key: prefix + strconv.Itoa(i), Value: make([]byte, register.MaxValue)})
			}
			return ws
		}
		var first, second []register.Result
		all.Go(func() { first = r.CompareAndSet(t.Context(), writes("x", 15)...) })
		synctest.Wait()
		all.Go(func() { second = r.CompareAndSet(t.Context(), writes("y", 120)...) })
		synctest.Wait()
		free()
		all.Wait()
		if first[0].Err != nil || second[0].Err != nil || r.Err() != nil {
			t.Errorf("%v; %v; %v", first[0].Err, second[0].Err, r.Err())
		}
	})
}

// Whoever has synced its own write knows that it was made, also if that took longer than its context.
func TestWhoSyncsKnowsTheResult(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "register"))
	for i := range 20 {
		writes := make([]register.Write, 50)
		for k := range writes {
			writes[k] = register.Write{Key: fmt.Sprint("lock/", i, "/", k), Value: make([]byte, register.MaxValue/2)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := r.CompareAndSet(ctx, writes...)[0].Err; errors.Is(err, register.ErrUnknown) {
			t.Errorf("write %d: %v", i, err)
		}
		cancel()
	}
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "register")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	r, err := local.Open(filepath.Join(dir, "register"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = r.Close() }()

	ctx := context.Background()
	crane, err := r.Get(ctx, "crane")
	if err != nil {
		panic(err)
	}
	first := register.Write{Key: "crane", Old: crane.Version, Value: []byte("root is A")}
	second := register.Write{Key: "crane", Old: crane.Version, Value: []byte("root is B")}
	for _, w := range []register.Write{first, second} {
		var conflict *register.Conflict
		if res := r.CompareAndSet(ctx, w)[0]; errors.As(res.Err, &conflict) {
			fmt.Printf("conflict: %s\n", conflict.Current.Value)
		} else {
			fmt.Println("written, error:", res.Err)
		}
	}
	// Output:
	// written, error: <nil>
	// conflict: root is A
}

func BenchmarkWrite(b *testing.B) {
	for kind, renewal := range map[string]time.Duration{"synced": 0, "renewal": time.Millisecond} {
		b.Run(kind, func(b *testing.B) {
			r, err := local.Open(filepath.Join(b.TempDir(), "register"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			var v register.Version
			for b.Loop() {
				res := r.CompareAndSet(b.Context(), register.Write{Key: "crane", Old: v, Value: make([]byte, 200), Renewal: renewal})[0]
				if res.Err != nil {
					b.Fatal(res.Err)
				}
				v = res.Version
			}
		})
	}
}

// TryRenew renews what is as its caller knows it, and leaves all else to CompareAndSet.
func TestTryRenew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r := open(t, path)
	v := put(t, r, register.Write{Key: "crane", Value: []byte("a")})
	before := size(t, path)
	next, ok := r.TryRenew("crane", v, 7)
	if e := get(t, r, "crane"); !ok || e.Version != next || next.Nonce != 7 || next.Counter != v.Counter+1 || string(e.Value) != "a" {
		t.Fatalf("renewed %v to %v: %v, and there is %q at %v", v, next, ok, e.Value, e.Version)
	}
	if after := size(t, path); after != before {
		t.Errorf("%d bytes grew to %d", before, after)
	}
	refused := func(why, key string, old register.Version, nonce uint64) {
		t.Helper()
		if got, ok := r.TryRenew(key, old, nonce); ok {
			t.Errorf("%s: renewed to %v", why, got)
		}
		if e := get(t, r, "crane"); e.Version != next {
			t.Errorf("%s: %v is now %v", why, next, e.Version)
		}
	}
	refused("an old version", "crane", v, 8)
	refused("no nonce", "crane", next, 0)
	refused("a key that was never written", "lift", register.Version{Domain: r.Domain()}, 8)
	free := local.Occupy(r)
	refused("somebody writes", "crane", next, 8)
	free()
	if _, ok := r.TryRenew("crane", next, 8); !ok {
		t.Error("not renewed when nobody writes any more")
	}
	_ = r.Close()
	if _, ok := r.TryRenew("crane", register.Version{Domain: r.Domain(), Counter: next.Counter + 1, Nonce: 8}, 9); ok {
		t.Error("renewed when closed")
	}
}
