package poll

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that says with what it failed.
type failing struct {
	testing.TB
	said chan<- string
}

func (failing) Helper() {}

func (f failing) Fatalf(format string, args ...any) {
	f.said <- fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWaits(t *testing.T) {
	for _, tc := range []struct {
		name string
		says string // "" if the condition holds in time
		wait func(t testing.TB, holds func() bool)
		at   time.Duration // when the condition begins to hold
	}{
		{"until", "", func(t testing.TB, holds func() bool) { Until(t, "noon", holds) }, 19 * time.Second},
		{"until, late", "not within 20s: noon", func(t testing.TB, holds func() bool) { Until(t, "noon", holds) }, time.Minute},
		{"within", "", func(t testing.TB, holds func() bool) { Within(t, time.Hour, "noon", holds) }, time.Minute},
		{"within, late", "not within 1s: noon", func(t testing.TB, holds func() bool) { Within(t, time.Second, "noon", holds) }, time.Minute},
		{"or, late", "after 20s: morning", func(t testing.TB, holds func() bool) { UntilOr(t, holds, func() string { return "morning" }) }, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := make(chan string, 1)
				begin := time.Now()
				go func() {
					defer close(said)
					tc.wait(failing{t, said}, func() bool { return time.Since(begin) >= tc.at })
				}()
				if got := <-said; got != tc.says {
					t.Errorf("it says %q, want %q", got, tc.says)
				}
				if waited := time.Since(begin); tc.says == "" && waited > tc.at+20*time.Millisecond {
					t.Errorf("it waited %v for what held after %v", waited, tc.at)
				}
			})
		})
	}
}
