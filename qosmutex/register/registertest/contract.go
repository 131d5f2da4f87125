package registertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/register"
)

// Run checks a register that open returns, a new and empty one for each part. Open
// registers its own cleanup.
func Run(t *testing.T, open func(t *testing.T) register.Register) {
	for _, part := range []struct {
		name  string
		check func(*testing.T, register.Register)
	}{
		{"NeverWritten", neverWritten},
		{"Age", age},
		{"WriteAndRead", writeAndRead},
		{"Conflict", conflict},
		{"RepeatedWrite", repeatedWrite},
		{"OtherDomain", otherDomain},
		{"Batch", batch},
		{"BatchOfOneKey", batchOfOneKey},
		{"ManyKeys", manyKeys},
		{"Renewal", renewal},
		{"Limits", limits},
		{"Invalid", invalid},
		{"ValuesAreCopied", valuesAreCopied},
		{"EndedContext", endedContext},
		{"OneWins", oneWins},
		{"Linearizable", func(t *testing.T, r register.Register) { Linearizable(t, []register.Register{r}, 4, 150) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.check(t, open(t)) })
	}
}

// patience bounds a call that must succeed. Nothing is measured by it.
const patience = 20 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A register that has answered knows itself since then at the latest, and no longer than
// the process runs.
func age(t *testing.T, r register.Register) {
	get(t, r, "key")
	answered := time.Now()
	time.Sleep(2 * time.Millisecond)
	least := time.Since(answered)
	if a := r.Age(); a < least || a > time.Since(started) {
		t.Errorf("the register is %v old, and has answered %v ago; the process is %v old", a, least, time.Since(started))
	}
}

// started is before any register of this process.
var started = time.Now()

func get(t *testing.T, r register.Register, key string) register.Entry {
	t.Helper()
	e, err := r.Get(within(t), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return e
}

func put(t *testing.T, r register.Register, w register.Write) register.Version {
	t.Helper()
	res := r.CompareAndSet(within(t), w)
	if len(res) != 1 || res[0].Err != nil {
		t.Fatalf("write %s: %v", w.Key, res)
	}
	return res[0].Version
}

func isConflict(t *testing.T, err error, key, value string) {
	t.Helper()
	var c *register.Conflict
	if !errors.Is(err, register.ErrConflict) || !errors.As(err, &c) {
		t.Fatalf("got %v, want a conflict", err)
	}
	// A request that may have arrived twice cannot tell what came of its write once
	// somebody has written again.
	mayBeUnknown := c.Current.Version.Counter > c.Old.Counter+1
	if c.Key != key || string(c.Current.Value) != value || c.Unknown && !mayBeUnknown {
		t.Fatalf("conflict of %s with %q, unknown: %v; want %s with %q", c.Key, c.Current.Value, c.Unknown, key, value)
	}
}

func neverWritten(t *testing.T, r register.Register) {
	e := get(t, r, "crane")
	if e.Value != nil || e.Version.Counter != 0 || e.Version.Nonce != 0 || e.Version.Domain == (register.Domain{}) {
		t.Errorf("got %+v", e)
	}
	if other := get(t, r, "lift"); other.Version != e.Version {
		t.Errorf("another key has version %+v", other.Version)
	}
	res := r.CompareAndSet(within(t), register.Write{Key: "crane", Old: register.Version{Counter: 7, Nonce: 9}, Value: []byte("x")})
	isConflict(t, res[0].Err, "crane", "")
	if e := get(t, r, "crane"); e.Version.Counter != 0 {
		t.Errorf("a write that failed left %+v", e)
	}
}

func writeAndRead(t *testing.T, r register.Register) {
	v := put(t, r, register.Write{Key: "crane", Old: get(t, r, "crane").Version, Value: []byte("a"), Nonce: 42})
	if v.Counter != 1 || v.Nonce != 42 || v.Domain != get(t, r, "lift").Version.Domain {
		t.Errorf("version %+v", v)
	}
	for i := range 5 {
		e := get(t, r, "crane")
		if want := strings.Repeat("a", i+1); string(e.Value) != want || e.Version != v {
			t.Fatalf("got %q at %v, want %q at %v", e.Value, e.Version, want, v)
		}
		next := put(t, r, register.Write{Key: "crane", Old: v, Value: append(e.Value, 'a')})
		if next.Counter != v.Counter+1 || next.Nonce == 0 || next.Domain != v.Domain {
			t.Fatalf("%+v follows %+v", next, v)
		}
		v = next
	}
	v = put(t, r, register.Write{Key: "crane", Old: v})
	if e := get(t, r, "crane"); len(e.Value) != 0 || e.Version != v {
		t.Errorf("an empty value: %q at %v, want %v", e.Value, e.Version, v)
	}
}

func conflict(t *testing.T, r register.Register) {
	first := put(t, r, register.Write{Key: "crane", Value: []byte("first")}) // in any domain
	res := r.CompareAndSet(within(t), register.Write{Key: "crane", Value: []byte("second")})
	isConflict(t, res[0].Err, "crane", "first")
	put(t, r, register.Write{Key: "crane", Old: first, Value: []byte("third")})
	wrong := first
	wrong.Counter++ // the counter alone is no version
	for _, old := range []register.Version{first, wrong, {}} {
		res := r.CompareAndSet(within(t), register.Write{Key: "crane", Old: old, Value: []byte("fourth")})
		isConflict(t, res[0].Err, "crane", "third")
	}
	if e := get(t, r, "crane"); string(e.Value) != "third" {
		t.Errorf("got %q", e.Value)
	}
}

func repeatedWrite(t *testing.T, r register.Register) {
	w := register.Write{Key: "crane", Value: []byte("a"), Nonce: register.NewNonce()}
	v := put(t, r, w)
	if again := put(t, r, w); again != v {
		t.Errorf("repeated: %v, not %v", again, v)
	}
	w2 := register.Write{Key: "crane", Old: v, Value: []byte("b"), Nonce: w.Nonce}
	v2 := put(t, r, w2) // the same nonce for another write is the caller's affair
	if v2.Counter != 2 {
		t.Errorf("version %v", v2)
	}
	res := r.CompareAndSet(within(t), w)
	isConflict(t, res[0].Err, "crane", "b")
}

func otherDomain(t *testing.T, r register.Register) {
	old := register.Version{Domain: register.NewDomain()}
	res := r.CompareAndSet(within(t), register.Write{Key: "crane", Old: old, Value: []byte("a")})
	isConflict(t, res[0].Err, "crane", "")
	v := put(t, r, register.Write{Key: "crane", Value: []byte("b")})
	old = v
	old.Domain = register.NewDomain()
	res = r.CompareAndSet(within(t), register.Write{Key: "crane", Old: old, Value: []byte("c")})
	isConflict(t, res[0].Err, "crane", "b")
}

func batch(t *testing.T, r register.Register) {
	v := put(t, r, register.Write{Key: "b", Value: []byte("old")})
	res := r.CompareAndSet(within(t),
		register.Write{Key: "a", Value: []byte("1")},
		register.Write{Key: "b", Value: []byte("2")},
		register.Write{Key: ""},
		register.Write{Key: "c", Value: []byte("3"), Renewal: time.Millisecond},
		register.Write{Key: "d", Old: v, Value: []byte("4")},
	)
	if len(res) != 5 {
		t.Fatalf("%d results", len(res))
	}
	isConflict(t, res[1].Err, "b", "old")
	isConflict(t, res[4].Err, "d", "")
	if !errors.Is(res[2].Err, register.ErrInvalid) {
		t.Errorf("an empty key: %v", res[2].Err)
	}
	for i, key := range map[int]string{0: "a", 3: "c"} {
		if e := get(t, r, key); res[i].Err != nil || e.Version != res[i].Version {
			t.Errorf("%s: %v at %v, result %v", key, e.Value, e.Version, res[i])
		}
	}
	if len(r.CompareAndSet(within(t))) != 0 {
		t.Error("results of no write")
	}
}

func batchOfOneKey(t *testing.T, r register.Register) {
	v := put(t, r, register.Write{Key: "a", Value: []byte("1")})
	first := register.Write{Key: "a", Old: v, Value: []byte("2"), Nonce: 7}
	res := r.CompareAndSet(within(t), first,
		register.Write{Key: "a", Old: v, Value: []byte("3")},
		register.Write{Key: "a", Old: v.Next(v.Domain, 7), Value: []byte("4")})
	if res[0].Err != nil || res[2].Err != nil || res[2].Version.Counter != 3 {
		t.Fatalf("%v", res)
	}
	isConflict(t, res[1].Err, "a", "2")
	if e := get(t, r, "a"); string(e.Value) != "4" || e.Version != res[2].Version {
		t.Errorf("%q at %v", e.Value, e.Version)
	}
}

func manyKeys(t *testing.T, r register.Register) {
	var writes []register.Write
	for i := range 300 {
		writes = append(writes, register.Write{Key: fmt.Sprintf("k%d", i), Value: bytes.Repeat([]byte{byte(i)}, 4<<10)})
	}
	for i, res := range r.CompareAndSet(within(t), writes...) {
		if res.Err != nil {
			t.Fatalf("write %d: %v", i, res.Err)
		}
		writes[i].Old, writes[i].Renewal = res.Version, time.Millisecond
	}
	for i, res := range r.CompareAndSet(within(t), writes...) {
		if res.Err != nil {
			t.Fatalf("renewal %d: %v", i, res.Err)
		}
	}
	if e := get(t, r, "k299"); e.Version.Counter != 2 || len(e.Value) != 4<<10 || e.Value[0] != 299%256 {
		t.Errorf("%v, %d bytes", e.Version, len(e.Value))
	}
}

func renewal(t *testing.T, r register.Register) {
	v := put(t, r, register.Write{Key: "crane", Value: []byte("a"), Renewal: time.Millisecond}) // the first one
	for i := range 4 {
		v = put(t, r, register.Write{Key: "crane", Old: v, Value: []byte{byte(i)}, Renewal: time.Duration(1 - i%2)})
		if e := get(t, r, "crane"); e.Version != v || e.Value[0] != byte(i) {
			t.Fatalf("%q at %v, want %v", e.Value, e.Version, v)
		}
	}
}

func limits(t *testing.T, r register.Register) {
	key, value := strings.Repeat("k", register.MaxKey), bytes.Repeat([]byte{0xff}, register.MaxValue)
	v := put(t, r, register.Write{Key: key, Value: value})
	if e := get(t, r, key); !bytes.Equal(e.Value, value) || e.Version != v {
		t.Errorf("%d bytes at %v", len(e.Value), e.Version)
	}
}

func invalid(t *testing.T, r register.Register) {
	for name, w := range map[string]register.Write{
		"no key":     {Value: []byte("a")},
		"long key":   {Key: strings.Repeat("k", register.MaxKey+1)},
		"not UTF-8":  {Key: "\xff"},
		"long value": {Key: "a", Value: make([]byte, register.MaxValue+1)},
	} {
		res := r.CompareAndSet(within(t), w)
		if !errors.Is(res[0].Err, register.ErrInvalid) || errors.Is(res[0].Err, register.ErrUnknown) {
			t.Errorf("%s: %v", name, res[0].Err)
		}
		if _, err := r.Get(within(t), w.Key); len(w.Value) <= 1 && !errors.Is(err, register.ErrInvalid) {
			t.Errorf("get with %s: %v", name, err)
		}
	}
}

func valuesAreCopied(t *testing.T, r register.Register) {
	value := []byte("abc")
	v := put(t, r, register.Write{Key: "crane", Value: value})
	value[0] = 'X'
	e := get(t, r, "crane")
	e.Value[1] = 'X'
	res := r.CompareAndSet(within(t), register.Write{Key: "crane", Value: []byte("d")})
	isConflict(t, res[0].Err, "crane", "abc")
	var c *register.Conflict
	errors.As(res[0].Err, &c)
	c.Current.Value[2] = 'X'
	if e := get(t, r, "crane"); string(e.Value) != "abc" || e.Version != v {
		t.Errorf("%q", e.Value)
	}
}

func endedContext(t *testing.T, r register.Register) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Get(ctx, "crane")
	isUnavailable(t, err)
	for _, res := range r.CompareAndSet(ctx, register.Write{Key: "crane"}, register.Write{Key: "lift"}) {
		isUnavailable(t, res.Err)
	}
}

func isUnavailable(t *testing.T, err error) {
	t.Helper()
	var u *register.Unavailable
	if !errors.Is(err, register.ErrUnavailable) || !errors.As(err, &u) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want unavailable because of the context", err)
	}
}

// oneWins has several create the same key at once.
func oneWins(t *testing.T, r register.Register) {
	const writers = 6
	results := make([]register.Result, writers)
	done := make(chan int)
	for i := range writers {
		go func() {
			results[i] = r.CompareAndSet(within(t), register.Write{Key: "crane", Value: []byte{byte(i)}})[0]
			done <- i
		}()
	}
	for range writers {
		<-done
	}
	e, won := get(t, r, "crane"), 0
	for i, res := range results {
		switch {
		case res.Err == nil:
			won++
			if res.Version != e.Version || e.Value[0] != byte(i) {
				t.Errorf("%d won, but %v at %v is there", i, e.Value, e.Version)
			}
		case !errors.Is(res.Err, register.ErrConflict):
			t.Errorf("%d: %v", i, res.Err)
		}
	}
	if won != 1 {
		t.Errorf("%d have won", won)
	}
}
