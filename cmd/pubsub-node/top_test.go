package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"padme/qosmutex"
)

// manyLocks are locks whose names and numbers are as long as they can be.
func manyLocks() topSnapshot {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	snap := topSnapshot{At: at, Participants: 200, Held: 1000, Waiting: 4000, Rate: 123456}
	for i := range 30 {
		long := strings.Repeat("very-long-name-", 8)
		snap.Locks = append(snap.Locks, topLock{qosmutex.State{
			Topic: long, Resource: fmt.Sprint(i), Holder: "ü" + long, Priority: math.MinInt64, Since: at.Add(-time.Duration(i*i*i) * time.Minute),
			Waiting: 40000, Queue: []qosmutex.Waiter{{Participant: "\x1b[31m" + long}},
		}, 99999})
	}
	return snap
}

func TestTopFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 80, 132} {
		var out bytes.Buffer
		writeTop(&out, manyLocks(), strings.Repeat("mqtt://host", 20), width, 24)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 23 || lines[22] != "and 11 more locks" {
			t.Errorf("%d lines at a terminal with 24, the last %q", len(lines), lines[len(lines)-1])
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > width || strings.ContainsAny(l, "\x1b\t") || l != strings.TrimRight(l, " ") {
				t.Errorf("%d columns of %d: %q", n, width, l)
			}
		}
	}
	var out bytes.Buffer
	writeTop(&out, manyLocks(), "default", topWidth, 0)
	if n := strings.Count(out.String(), "\n"); n != 33 {
		t.Errorf("%d lines where there is no terminal, want all: 33", n)
	}
}

// What others write must not push a line beyond the terminal, and a table that is
// not up to date must say so whatever the width.
func TestTopWithOddNumbersInANarrowTerminal(t *testing.T) {
	snap := manyLocks()
	for i := range snap.Locks {
		snap.Locks[i].Waiting, snap.Locks[i].Since, snap.Locks[i].Rate = math.MinInt+i, time.Time{}, 1e300
	}
	for _, width := range []int{1, 20, 40, 80} {
		var out bytes.Buffer
		writeTop(&out, snap, strings.Repeat("mqtt://host", 20), width, 24)
		for l := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > width {
				t.Errorf("%d columns of %d: %q", n, width, l)
			}
		}
		if width >= 20 && !strings.Contains(out.String(), "NO CONNECTION") {
			t.Errorf("%d columns do not say that there is no connection:\n%s", width, out.String())
		}
	}
}

func TestTopShowsALock(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	writeTop(&out, topSnapshot{At: at, Connected: true, Participants: 1, Held: 1, Waiting: 2, Rate: 0.5, Locks: []topLock{
		{qosmutex.State{Topic: "crane", Resource: "default", Holder: "lift", Priority: 7, Since: at.Add(-83 * time.Second), Waiting: 2, Queue: []qosmutex.Waiter{{Participant: "truck"}, {Participant: "ship"}}}, 0.5},
		{qosmutex.State{Topic: "frequency", Resource: "146.52"}, 0},
		{qosmutex.State{Topic: "gate", Resource: "default", Status: qosmutex.StatusUnknown, Since: at.Add(-2 * time.Second)}, 0},
		{qosmutex.State{Topic: "gate", Resource: "west", Status: qosmutex.StatusGranted, Grantee: "truck", Since: at}, 0},
	}}, "default at mqtt://host", topWidth, 0)
	want := `default at mqtt://host` + strings.Repeat(" ", 50) + at.Local().Format(time.TimeOnly) + `
4 locks, 1 held  2 waiting  0.5/s  1 participant
LOCK                HOLDER         PRIORITY    FOR  WAIT     /s  NEXT
crane               lift                  7  1m23s     2    0.5  truck
frequency/146.52    -                     -      -     -      0
gate                ?                     -   2.0s     -      0
gate/west           -                     -      -     -      0
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTopNamesMissingVoters(t *testing.T) {
	snap := manyLocks()
	snap.Connected, snap.Missing = true, []string{"v2", "v\x1b3"}
	var out bytes.Buffer
	writeTop(&out, snap, "default", topWidth, 24)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 23 || !strings.HasPrefix(lines[2], "VOTERS MISSING: v2,") || strings.Contains(lines[2], "\x1b") {
		t.Errorf("%d lines at a terminal with 24, the third %q", len(lines), lines[2])
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 9990 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 59999 * time.Millisecond: "59s",
		time.Minute: "1m00s", 59*time.Minute + 59*time.Second: "59m59s", 23*time.Hour + 59*time.Minute: "23h59m", 100 * 24 * time.Hour: "100d00h",
	} {
		if got := elapsed(d); got != want {
			t.Errorf("elapsed(%v) = %q, want %q", d, got, want)
		}
	}
}
