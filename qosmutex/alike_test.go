package qosmutex

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/capture"
)

// Hundreds of locks that have the same trouble make one line, which counts them, and then
// one a minute; what is left is said at the end.
func TestManyLocksMakeOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &capture.Text{}
		var o options
		if err := WithLogger(log.Logger())(&o); err != nil {
			t.Fatal(err)
		}
		a := newAlike(o.log)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); a.run(ctx) }()
		say := func(what string, n int) {
			for i := range n {
				topic := &Topic{name: fmt.Sprint("n", i)}
				topic.alike = a
				topic.warn(what, "error", "away")
			}
		}
		check := func(after time.Duration, what string, lines int, text string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if n := log.Lines("level=WARN", what); n != lines || !log.Has(text) {
				t.Fatalf("%d lines of %q, want %d with %q: %s", n, what, lines, text, log)
			}
		}
		say("lease over", 340)
		say("lease over", 20)
		check(999*time.Millisecond, "lease over", 0, "")
		check(2*time.Millisecond, "lease over", 1, `locks=340 lock="n0, n1, n2" error=away`)
		say("lease over", 2)
		say("no answer", 1)
		check(2*time.Second, "no answer", 1, "locks=1 lock=n0 error=away")
		check(50*time.Second, "lease over", 1, "")
		check(8*time.Second, "lease over", 2, `locks=2 lock="n0, n1"`)
		say("lease over", 5)
		cancel()
		<-ended
		check(0, "lease over", 3, `locks=5`)
		if strings.Count(log.String(), "\n") != 4 {
			t.Errorf("other lines: %s", log)
		}
	})
}
