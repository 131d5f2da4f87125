package limited

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What is beyond a limit is counted each time. A line names the limit, its value, who and what to
// do, once a minute for each limit and name.
func TestOneLineAMinute(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)), "client", []Limit{{"max-a", "send less"}, {"max-b", "ask less"}})
	now := time.Unix(1, 0)
	for range 2 * 60 {
		for limit, who := range []string{"ann", "bob"} {
			if l.Count(limit, who, now) {
				l.Tell(limit, who, 7, "lock", "crane")
			}
		}
		now = now.Add(time.Second)
	}
	for _, want := range []string{
		`msg="limit reached" limit=max-a most=7 client=ann lock=crane remedy="send less"`,
		`msg="limit reached" limit=max-b most=7 client=bob lock=crane remedy="ask less"`,
	} {
		if n := strings.Count(out.String(), want); n != 2 {
			t.Errorf("%d times in two minutes: %s\n%s", n, want, &out)
		}
	}
	var counts []string
	l.Each(func(limit string, n uint64) { counts = append(counts, fmt.Sprint(limit, " ", n)) })
	if got := strings.Join(counts, ", "); got != "max-a 120, max-b 120" {
		t.Error(got)
	}
}

// Whoever floods costs no memory for each message.
func TestCountAllocatesNothing(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler), "client", []Limit{{"max-a", "send less"}})
	now := time.Unix(1, 0)
	l.Count(0, "ann", now)
	if n := testing.AllocsPerRun(100, func() { l.Count(0, "ann", now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A name that a stranger chose takes no more than a line.
func TestLongNamesAreCut(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)), "client", []Limit{{"max-a", "send less"}})
	if who := strings.Repeat("ä", 10_000); l.Count(0, who, time.Unix(1, 0)) {
		l.Tell(0, who, 1)
	}
	if n := out.Len(); n < maxName || n > 2*maxName {
		t.Errorf("a line of %d bytes", n)
	}
}
