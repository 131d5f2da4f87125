package fence

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// guards are one of each kind.
func guards(t *testing.T) map[string]*Guard {
	durable, err := Open(filepath.Join(t.TempDir(), "fences"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Guard{"memory": {}, "file": durable}
}

func TestLowerFencesAreRefused(t *testing.T) {
	for name, g := range guards(t) {
		t.Run(name, func(t *testing.T) {
			for _, step := range []struct {
				resource string
				fence    uint64
				highest  uint64 // of the refusal; 0: admitted
			}{
				{"a", 5, 0},
				{"a", 5, 0},
				{"a", 4, 5},
				{"b", 4, 0},
				{"a", math.MaxUint64, 0},
				{"a", math.MaxUint64 - 1, math.MaxUint64},
				{"b", 3, 4},
				{"", 1, 0},
				{"\xff\"é\n", 1, 0},
			} {
				ran := false
				err := g.Do(step.resource, step.fence, func() error { ran = true; return nil })
				var stale *StaleError
				switch {
				case step.highest == 0:
					if err != nil || !ran {
						t.Errorf("%+v: %v, ran %v", step, err, ran)
					}
				case ran || !errors.Is(err, ErrStale) || !errors.As(err, &stale):
					t.Errorf("%+v: %v, ran %v", step, err, ran)
				case *stale != StaleError{step.resource, step.fence, step.highest}:
					t.Errorf("%+v: %+v", step, stale)
				}
			}
			if err := g.Admit("c", 0); !errors.Is(err, ErrNone) {
				t.Errorf("fence 0: %v", err)
			}
		})
	}
}

func TestFailedAccessCountsAsSeen(t *testing.T) {
	for name, g := range guards(t) {
		t.Run(name, func(t *testing.T) {
			broken := errors.New("broken")
			if err := g.Do("a", 2, func() error { return broken }); !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
			func() {
				defer func() { _ = recover() }()
				_ = g.Do("a", 3, func() error { panic("broken") })
			}()
			if err := g.Admit("a", 2); !errors.Is(err, ErrStale) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whatever the order in which goroutines come, what the resource sees rises.
func TestConcurrentAccessesAreInOrder(t *testing.T) {
	for name, g := range guards(t) {
		t.Run(name, func(t *testing.T) {
			var seen []uint64 // protected by the guard alone
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for n := range 20 {
						err := g.Do("a", uint64(n*8+i+1), func() error {
							seen = append(seen, uint64(n*8+i+1))
							return nil
						})
						if err != nil && !errors.Is(err, ErrStale) {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if len(seen) == 0 || seen[len(seen)-1] != 160 {
				t.Errorf("%d", seen)
			}
			for i := 1; i < len(seen); i++ {
				if seen[i] <= seen[i-1] {
					t.Fatalf("%d after %d", seen[i], seen[i-1])
				}
			}
		})
	}
}

func TestTwoGuardsOfOneFileAreOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fences")
	first, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Admit("a", 7); err != nil {
		t.Fatal(err)
	}
	if err := second.Admit("a", 6); !errors.Is(err, ErrStale) {
		t.Errorf("the second guard: %v", err)
	}
	// Neither of them lets anything in during an access of the other.
	var inside atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		g := []*Guard{first, second}[i%2]
		all.Go(func() {
			for range 20 {
				err := g.Do("a", 7, func() error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d accesses at once", n)
					}
					for range 100 {
						runtime.Gosched()
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestUnreadableFileAdmitsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fences")
	g, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "null", "[]", `{"a": 1`, `{"a": -1}`, `{"a": 1.5}`, `{"a": "1"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.Admit("a", 9); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: Admit: %v", text, err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: Open: %v", text, err)
		}
	}
	if _, err := Open(filepath.Join(path, "no", "such")); err == nil {
		t.Error("Open without a directory")
	}
}

// A guard whose file was taken away must not begin at nothing again.
func TestVanishedFileAdmitsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fences")
	g, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := g.Admit("a", 9); err == nil {
		t.Error("admitted")
	}
}
